# SPDX-License-Identifier: Apache-2.0
"""The prior protocol: expected step times of a job before the first sample.

A prior is a cost model or an earlier study. A designer with a model of the step time uses it as the prior mean, scales
it, and drops it if its evidence is too small. A wrong prior therefore costs only a few samples.
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ringtune.tuner.sample import Trial
from ringtune.tuner.space.config import Config

Array = NDArray[np.float64]


class Prior(Protocol):
    """Source of expected step times."""

    @property
    def name(self) -> str:
        """The short name in the log."""

    def log_step_ms(self, configs: Sequence[Config], trials: Sequence[Trial]) -> Array:
        """Return the expected ln(step time in ms) of configs, up to a constant.

        Args:
            configs: m legal configs.
            trials: All trials so far, the baseline (trial 0) first; a prior may calibrate itself to them.

        Returns:
            Expected values, shape (m,), finite.
        """


@runtime_checkable
class UncertainPrior(Prior, Protocol):
    """A prior with unknown constants, and the sensitivity of its expectation to each."""

    def jacobian(self, configs: Sequence[Config], trials: Sequence[Trial]) -> Array:
        """Return the change of the expectation per standard deviation of each of the k unknowns.

        Args:
            configs: m legal configs.
            trials: All trials so far, the baseline (trial 0) first.

        Returns:
            Sensitivities, shape (m, k), finite. The unknowns are independent; their standard deviations are those
            before the first sample.
        """


@runtime_checkable
class PriorStudy(Prior, Protocol):
    """A prior from the measurements of an earlier study: it knows the measured configs and the best of them."""

    @property
    def configs(self) -> tuple[Config, ...]:
        """The measured configs that are legal now, the baseline first if it is among them."""

    @property
    def adopted(self) -> Config | None:
        """The config that the study adopted after its test; None if it kept its baseline, or had another key."""

    def best_config(self) -> Config:
        """Return the adopted config, or else the measured config with the shortest expected step."""


@runtime_checkable
class UnfinishedRuns(Prior, Protocol):
    """A prior whose samples are as good as the job's own: earlier runs of the same question, without a decision."""

    def trials_beside(self, trials: Sequence[Trial]) -> tuple[Trial, ...]:
        """Return the runs' trials in step times of this job, the baseline first; none if this job contradicts them.

        Args:
            trials: All trials so far, the baseline (trial 0) first.
        """
