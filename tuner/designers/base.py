# SPDX-License-Identifier: Apache-2.0
"""The designer protocol: what to try next, and what to expect of it.

Every designer models y = ln(typical step time in milliseconds), to be minimised, from all trials so far.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ringtune.tuner.priors.base import Prior
from ringtune.tuner.sample import Trial
from ringtune.tuner.space.config import Config
from ringtune.tuner.space.search_space import SearchSpace


@dataclass(frozen=True)
class Suggestion:
    """The config to try next.

    Attributes:
        config: A config that the search space accepts.
        expected_score: Predicted score, bytes per second, or None when the designer has no model yet.
        expected_std: Standard deviation of that prediction, same unit, or None.
    """

    config: Config
    expected_score: float | None = None
    expected_std: float | None = None


@dataclass(frozen=True)
class Prediction:
    """Predicted ln(typical step time in ms) of several configs.

    Attributes:
        mean_log_step_ms: Posterior means, shape (m,).
        std: Posterior standard deviations of the noise-free value, shape (m,), same unit.
    """

    mean_log_step_ms: NDArray[np.float64]
    std: NDArray[np.float64]


class Designer(Protocol):
    """Suggests configs. The calls come from one thread, in the order update, then suggest and predict."""

    @property
    def name(self) -> str:
        """The name in the registry."""

    def update(self, trials: Sequence[Trial]) -> None:
        """Take in all trials so far, the baseline (trial 0) first; this replaces what was known before."""

    def suggest(self) -> Suggestion:
        """Return the config to try next."""

    def predict(self, configs: Sequence[Config]) -> Prediction:
        """Return what the trials say about `configs`, measured ones or not.

        Raises:
            ValueError: If no valid sample was seen yet.
        """


@runtime_checkable
class JointDesigner(Designer, Protocol):
    """A designer that knows how much of what it does not know of several configs is the same."""

    def covariance(self, configs: Sequence[Config]) -> NDArray[np.float64]:
        """Return the posterior covariances of the noise-free values, shape (m, m); its diagonal is `std` squared.

        Raises:
            ValueError: If no valid sample was seen yet.
        """


@runtime_checkable
class ExperiencedDesigner(Designer, Protocol):
    """A designer that knows what an earlier run of the same question has adopted."""

    @property
    def adopted_before(self) -> Config | None:
        """What was adopted after a test against the same baseline; None where nothing was."""


DesignerFactory: TypeAlias = Callable[[SearchSpace, int, Sequence[Prior]], Designer]
"""Builds a designer for a search space; the seed decides every random choice, the priors what is known beforehand."""


def bytes_per_step(trials: Sequence[Trial]) -> float | None:
    """Return the gradient bytes per step behind the newest valid sample, or None when there is none."""
    for trial in reversed(trials):
        for sample in reversed(trial.samples):
            if sample.valid:
                return sample.score_bytes_per_s * sample.step_times.mean * 1e-3
    return None


def expected_suggestion(config: Config, trials: Sequence[Trial], prediction: Prediction) -> Suggestion:
    """Return a suggestion whose prediction (of one config) is turned from ln(ms) into bytes per second."""
    size = bytes_per_step(trials)
    if size is None:
        return Suggestion(config)
    score = size / (float(np.exp(prediction.mean_log_step_ms[0])) * 1e-3)
    return Suggestion(config, score, score * float(prediction.std[0]))
