# SPDX-License-Identifier: Apache-2.0
"""Tuning of commands by one launch per trial: reports of steps in a script, and `ringtune tune` from Python."""

from ringtune.tuning.command import StepReport, TuneRequest, engine_names, plugin_path, run_tune

__all__ = ["StepReport", "TuneRequest", "engine_names", "plugin_path", "run_tune"]
