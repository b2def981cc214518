# SPDX-License-Identifier: Apache-2.0
"""Selectors of jobs' series, by the choices at the dashboard's head."""

JOB = 'training_job=~"$training_job"'
"""Selector of series that a job has once: the tuner's, of rank 0."""
HERE = f'{JOB},host=~"$host",rank=~"$rank"'
"""Selector of series that every rank has."""
FIRST_RANK = f'{JOB},rank="0"'
"""Selector of series that are the same on every rank."""
IDENTITY = ("__name__", "host", "instance", "job", "local_rank", "rank")
"""Labels that a table of jobs need not show."""
