# SPDX-License-Identifier: Apache-2.0
"""Best single sample: the decision rule of rivals that take each measurement at its face value."""

from collections.abc import Sequence

import numpy as np

from ringtune.tuner.designers.base import Prediction, Suggestion, expected_suggestion
from ringtune.tuner.sample import Trial
from ringtune.tuner.space.config import Config


def best_single_samples(configs: Sequence[Config], trials: Sequence[Trial]) -> Prediction:
    """Return each config's best single sample, and the worst of those for a config that has none.

    Raises:
        ValueError: If no valid sample was seen yet.
    """
    best = {trial.config: min(trial.log_step_ms) for trial in trials if trial.is_conclusive}
    if not best:
        raise ValueError("no valid sample to predict from")
    worst = max(best.values())
    return Prediction(np.array([best.get(config, worst) for config in configs]), np.zeros(len(configs)))


def best_single_suggestion(config: Config, trials: Sequence[Trial]) -> Suggestion:
    """Return a suggestion that expects the config's best single sample; no prediction before there is a valid one."""
    if not any(trial.is_conclusive for trial in trials):
        return Suggestion(config)
    return expected_suggestion(config, trials, best_single_samples([config], trials))
