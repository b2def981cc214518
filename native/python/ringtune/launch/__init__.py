# SPDX-License-Identifier: Apache-2.0
"""`ringtune run`: starts the ranks of a job on this host and ends them together."""

from .launcher import Launcher
from .plan import LaunchPlan, make_plan

__all__ = ["LaunchPlan", "Launcher", "make_plan"]
