# SPDX-License-Identifier: Apache-2.0
"""The prior protocol: what is known of a job's step times before the first sample.

A cost model is one, an earlier study another. A designer that models the step time takes each as the trend of its
model, scales it, and drops it where the samples speak against it; so a wrong one costs a few samples.
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ringtune.tuner.sample import Trial
from ringtune.tuner.space.config import Config

Array = NDArray[np.float64]


class Prior(Protocol):
    """Expects step times."""

    @property
    def name(self) -> str:
        """A short name for the log."""

    def log_step_ms(self, configs: Sequence[Config], trials: Sequence[Trial]) -> Array:
        """Return the expected ln(step time in ms) of configs, up to a constant.

        Args:
            configs: Legal ones, m of them.
            trials: All trials so far, the baseline (trial 0) first, with which a prior may calibrate itself.

        Returns:
            Shape (m,), finite.
        """


@runtime_checkable
class UncertainPrior(Prior, Protocol):
    """A prior with unknowns of its own, which knows what it would expect if they were others."""

    def directions(self, configs: Sequence[Config], trials: Sequence[Trial]) -> Array:
        """Return by how much the expectation would be higher with one of k unknowns a standard deviation larger.

        Args:
            configs: Legal ones, m of them.
            trials: All trials so far, the baseline (trial 0) first.

        Returns:
            Shape (m, k), finite. The unknowns are independent, and as uncertain as before the first sample.
        """


@runtime_checkable
class Experience(Prior, Protocol):
    """A prior that comes from measurements: it knows which configs they were, and the best of them."""

    @property
    def configs(self) -> tuple[Config, ...]:
        """What was measured, the baseline first if it is legal; legal configs all of them."""

    @property
    def adopted(self) -> Config | None:
        """What was adopted after a test against the baseline, where the same was asked; None where nothing was."""

    def best_config(self) -> Config:
        """Return the measured config that is expected to be the fastest."""
