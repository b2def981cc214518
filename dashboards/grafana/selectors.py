# SPDX-License-Identifier: Apache-2.0
"""Which series of jobs a query means, by the choices at the dashboard's head."""

JOB = 'training_job=~"$training_job"'
"""What a job has once: the tuner's, of rank 0."""
HERE = f'{JOB},host=~"$host",rank=~"$rank"'
"""What every rank has."""
FIRST_RANK = f'{JOB},rank="0"'
"""What is the same on every rank."""
IDENTITY = ("__name__", "host", "instance", "job", "local_rank", "rank")
"""Labels that a table of jobs need not show."""
