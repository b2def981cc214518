# SPDX-License-Identifier: Apache-2.0
"""Any command as an engine: the knobs come from a YAML file, and go by variables, flags and rewritten config files."""

from .knob_file import KnobFile, read_knob_file
from .targets import COMMAND_TARGETS, command_engine, knobs_for

__all__ = ["COMMAND_TARGETS", "KnobFile", "command_engine", "knobs_for", "read_knob_file"]
