# SPDX-License-Identifier: Apache-2.0
"""`ringtune run`: starts the ranks of a job, on this host and on others, and ends them together."""

from .description import describe
from .job_loop import JobLoop, Reach
from .launcher import Launcher
from .output_folder import OutputFolder
from .plan import LaunchPlan, make_elastic_plan, make_plan
from .rank_streams import STDERR, STDOUT, OutputTaker
from .remote_shell import make_remote_shell

__all__ = [
    "STDERR",
    "STDOUT",
    "JobLoop",
    "LaunchPlan",
    "Launcher",
    "OutputFolder",
    "OutputTaker",
    "Reach",
    "describe",
    "make_elastic_plan",
    "make_plan",
    "make_remote_shell",
]
