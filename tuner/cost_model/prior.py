# SPDX-License-Identifier: Apache-2.0
"""The cost model as a prior: calibrated to the trials, because what a step computes is known from nowhere else."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ringtune.tuner.config import Config
from ringtune.tuner.sample import Trial

from .calibration import calibrated, sensitivities
from .costs import EngineCosts
from .step import JobShape, expected_step_s

Array = NDArray[np.float64]

MS_TO_S = 1e-3
UNMEASURED_STEP_MS = 100.0
"""A step of the baseline before it was measured."""


class CostModelPrior:
    """Expects the step times that `expected_step_s` says, with the constants that explain the trials."""

    name = "cost_model"

    def __init__(self, job: JobShape, costs: EngineCosts) -> None:
        """Take what is known of the job, and of this machine."""
        self._job = job
        self._costs = costs
        self._trials: tuple[Trial, ...] = ()
        self._fitted = (costs, MS_TO_S * UNMEASURED_STEP_MS)

    def log_step_ms(self, configs: Sequence[Config], trials: Sequence[Trial]) -> Array:
        """Return the expected ln(step time in ms) of configs, shape (m,).

        Args:
            configs: Configs of the engine.
            trials: All trials so far, the baseline first.
        """
        costs, compute_s = self._calibrated(trials)
        expected: Array = np.log(expected_step_s(self._job, costs, compute_s, configs) / MS_TO_S)
        return expected

    def directions(self, configs: Sequence[Config], trials: Sequence[Trial]) -> Array:
        """Return by how much that is higher per standard deviation of each constant, shape (m, 6).

        Args:
            configs: Configs of the engine.
            trials: All trials so far, the baseline first.
        """
        return sensitivities(self._job, *self._calibrated(trials), configs)

    def _calibrated(self, trials: Sequence[Trial]) -> tuple[EngineCosts, float]:
        if tuple(trials) != self._trials:
            self._trials, self._fitted = tuple(trials), self._fit(trials)
        return self._fitted

    def _fit(self, trials: Sequence[Trial]) -> tuple[EngineCosts, float]:
        """Return the constants and the computing, seconds; asked once for all questions about the same trials."""
        measured = [trial for trial in trials if trial.is_conclusive]
        if not measured:
            return calibrated(self._job, self._costs, [trials[0].config], [MS_TO_S * UNMEASURED_STEP_MS])
        step_s = [MS_TO_S * float(np.exp(np.median(trial.log_step_ms))) for trial in measured]
        return calibrated(self._job, self._costs, [trial.config for trial in measured], step_s)
