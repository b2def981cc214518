# SPDX-License-Identifier: Apache-2.0
"""The designer protocol: suggest the next config and predict step times.

Every designer minimises y = ln(typical step time in milliseconds), given all trials so far.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

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
        config: Legal config of the search space.
        expected_score: Predicted score, bytes per second; None while the designer has no model.
        expected_std: Standard deviation of the predicted score, same unit; None while the designer has no model.
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
    """Suggests configs and predicts step times.

    All calls come from one thread: first `update`, then `suggest` and `predict`.
    """

    @property
    def name(self) -> str:
        """The name in the registry."""

    def update(self, trials: Sequence[Trial]) -> None:
        """Replace the data by all trials so far, the baseline (trial 0) first."""

    def suggest(self) -> Suggestion:
        """Return the config to try next."""

    def predict(self, configs: Sequence[Config]) -> Prediction:
        """Return the posterior for `configs`, measured or not.

        Raises:
            ValueError: If no valid sample was seen yet.
        """


@runtime_checkable
class JointDesigner(Designer, Protocol):
    """A designer with a joint posterior: it knows the covariances between configs."""

    def covariance(self, configs: Sequence[Config]) -> NDArray[np.float64]:
        """Return the posterior covariances of the noise-free values, shape (m, m); the diagonal is `std` squared.

        Raises:
            ValueError: If no valid sample was seen yet.
        """


@runtime_checkable
class WarmStartedDesigner(Designer, Protocol):
    """A designer with a warm start: it knows the config that an earlier run of the same question adopted."""

    @property
    def adopted_before(self) -> Config | None:
        """The config that a test against the same baseline adopted; None if it kept the baseline, or had another."""


class DesignerFactory(Protocol):
    """Makes a designer."""

    def __call__(
        self, space: SearchSpace, seed: int, priors: Sequence[Prior], /, *, are_trials_cheap: bool
    ) -> Designer:
        """Return a new designer; `make_designer` describes the arguments."""


def bytes_per_step(trials: Sequence[Trial]) -> float | None:
    """Return the gradient bytes per step behind the newest valid sample, or None without one."""
    for trial in reversed(trials):
        for sample in reversed(trial.samples):
            if sample.valid:
                return sample.score_bytes_per_s * sample.step_times.mean * 1e-3
    return None


def expected_suggestion(config: Config, trials: Sequence[Trial], prediction: Prediction) -> Suggestion:
    """Return a suggestion with the prediction for its one config, converted from ln(ms) to bytes per second."""
    size = bytes_per_step(trials)
    if size is None:
        return Suggestion(config)
    score = size / (float(np.exp(prediction.mean_log_step_ms[0])) * 1e-3)
    return Suggestion(config, score, score * float(prediction.std[0]))
