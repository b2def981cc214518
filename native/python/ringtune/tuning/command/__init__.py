# SPDX-License-Identifier: Apache-2.0
"""Tuning engines that are not ours, by one launch of the user's command per trial: `ringtune tune`."""

from .engines import engine_names, plugin_path
from .step_report import StepReport
from .tune import TuneRequest, run_tune

__all__ = ["StepReport", "TuneRequest", "engine_names", "plugin_path", "run_tune"]
