# SPDX-License-Identifier: Apache-2.0
"""Runs a Python function on several ranks of this machine and returns each rank's result: `ringtune.run`.

No pickle is involved. The function goes as a name, where it can be imported, or as its source text, which is written
into a module of the job's own; arguments and results go as plain data, arrays and tensors, by the typed codec.
"""

from .failures import RankFailedError
from .horovod_options import LaunchArguments, launch_arguments
from .local_launch import run

__all__ = ["LaunchArguments", "RankFailedError", "launch_arguments", "run"]
