# SPDX-License-Identifier: Apache-2.0
"""Foreign engines: the variables of a launch and the files they read. A new one is one file and one row."""

from .engine import DEFAULT, Engine, Knob, WinnerFile
from .nccl_plugin import plugin_path
from .registry import engine_names, find_engine

__all__ = ["DEFAULT", "Engine", "Knob", "WinnerFile", "engine_names", "find_engine", "plugin_path"]
