# SPDX-License-Identifier: Apache-2.0
"""The cost model as a prior: calibrated to the baseline, because what a step computes is known from nowhere else."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ringtune.tuner.config import Config
from ringtune.tuner.sample import Trial

from .costs import EngineCosts
from .step import JobShape, expected_step_s

Array = NDArray[np.float64]

LEAST_COMPUTE_SHARE = 0.001
"""Of a step; what is assumed where the model thinks that communication alone takes longer than the baseline's steps."""
BISECTIONS = 40
UNMEASURED_STEP_MS = 100.0
"""A step of the baseline before it was measured."""


class CostModelPrior:
    """Expects the step times that `expected_step_s` says, with the computing that explains the baseline's."""

    name = "cost_model"

    def __init__(self, job: JobShape, costs: EngineCosts) -> None:
        """Take what is known of the job, and of this machine."""
        self._job = job
        self._costs = costs

    def log_step_ms(self, configs: Sequence[Config], trials: Sequence[Trial]) -> Array:
        """Return the expected ln(step time in ms) of configs, shape (m,).

        Args:
            configs: Configs of the engine.
            trials: All trials so far, the baseline first.
        """
        compute_s = self._compute_s(trials)
        expected: Array = np.log(expected_step_s(self._job, self._costs, compute_s, configs) * 1e3)
        return expected

    def _compute_s(self, trials: Sequence[Trial]) -> float:
        """Return the computing with which the baseline's steps take as long as they were measured to take."""
        baseline = trials[0]
        measured = baseline.log_step_ms
        step_s = 1e-3 * (float(np.exp(np.median(measured))) if measured else UNMEASURED_STEP_MS)
        low_s, high_s = LEAST_COMPUTE_SHARE * step_s, step_s
        for _ in range(BISECTIONS):
            middle_s = 0.5 * (low_s + high_s)
            if expected_step_s(self._job, self._costs, middle_s, [baseline.config])[0] < step_s:
                low_s = middle_s
            else:
                high_s = middle_s
        return 0.5 * (low_s + high_s)
