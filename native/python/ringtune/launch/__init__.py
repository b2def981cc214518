# SPDX-License-Identifier: Apache-2.0
"""`ringtune run`: starts the ranks of a job, on this host and on others, and ends them together."""

from .launcher import Launcher, Reach
from .plan import LaunchPlan, make_plan
from .remote_shell import make_remote_shell

__all__ = ["LaunchPlan", "Launcher", "Reach", "make_plan", "make_remote_shell"]
