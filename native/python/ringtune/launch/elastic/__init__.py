# SPDX-License-Identifier: Apache-2.0
"""Elastic jobs: hosts come and go while a job runs, workers are started and ended, and the others train on."""

from .launcher import ElasticLaunch, ElasticLauncher, describe_elastic

__all__ = ["ElasticLaunch", "ElasticLauncher", "describe_elastic"]
