# SPDX-License-Identifier: Apache-2.0
"""Designers that answer as a script says."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ringtune.tuner import Config, Prediction, Suggestion, Trial, default_config


class ScriptedDesigner:
    """Answers as it is told to."""

    name = "scripted"

    def __init__(self, suggest: Callable[[], Any], means: Any = (3.0, 2.0, 2.5)) -> None:
        """Answer with the result of `suggest`, and with `means`."""
        self._suggest = suggest
        self._means = means

    def update(self, trials: Sequence[Trial]) -> None:
        """Ignore the trials."""

    def suggest(self) -> Suggestion:
        """Return the script's next suggestion."""
        return self._suggest()  # type: ignore[no-any-return]

    def predict(self, configs: Sequence[Config]) -> Prediction:
        """Return the scripted means."""
        return Prediction(self._means, np.zeros(len(configs)))


class Unsure(ScriptedDesigner):
    """Says of its answers how unsure each is."""

    def __init__(self) -> None:
        """Suggest the baseline, as something believed."""
        super().__init__(lambda: Suggestion(default_config(), 1e6, 1e3))

    def predict(self, configs: Sequence[Config]) -> Prediction:
        """Return the scripted means, and standard deviations of 0.1."""
        return Prediction(super().predict(configs).mean_log_step_ms, np.full(len(configs), 0.1))
