# SPDX-License-Identifier: Apache-2.0
"""`ringtune run`: starts the ranks of a job, on this host and on others, and ends them together."""

from .description import describe
from .launcher import Launcher, Reach
from .output_folder import OutputFolder
from .plan import LaunchPlan, make_plan
from .rank_streams import STDERR, STDOUT, OutputTaker
from .remote_shell import make_remote_shell

__all__ = [
    "STDERR",
    "STDOUT",
    "LaunchPlan",
    "Launcher",
    "OutputFolder",
    "OutputTaker",
    "Reach",
    "describe",
    "make_plan",
    "make_remote_shell",
]
