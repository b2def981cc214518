# SPDX-License-Identifier: Apache-2.0
"""The cost model as a prior, calibrated to the trials: only measured steps reveal the compute time."""

from collections import deque
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ringtune.tuner.sample import Trial
from ringtune.tuner.space.config import Config

from .calibration import calibrated, sensitivities
from .costs import EngineCosts
from .job import JobShape
from .step import expected_step_s

Array = NDArray[np.float64]

MS_TO_S = 1e-3
"""Seconds per millisecond."""
UNMEASURED_STEP_MS = 100.0
"""Assumed step time of the baseline before its first sample, milliseconds."""
MOST_FITS = 4
"""Number of cached fits: those of the current search and of the earlier studies alternate."""


class CostModelPrior:
    """Prior from `expected_step_s`, with constants calibrated to the trials."""

    name = "cost_model"

    def __init__(self, job: JobShape, costs: EngineCosts) -> None:
        """Store the shape of the job and the prior constants of this machine."""
        self._job = job
        self._costs = costs
        self._fits: deque[tuple[tuple[Trial, ...], tuple[EngineCosts, float]]] = deque(maxlen=MOST_FITS)

    def log_step_ms(self, configs: Sequence[Config], trials: Sequence[Trial]) -> Array:
        """Return the expected ln(step time in ms) of configs, shape (m,).

        Args:
            configs: Configs of the engine.
            trials: All trials so far, the baseline first.
        """
        costs, compute_s = self._calibrated(trials)
        expected: Array = np.log(expected_step_s(self._job, costs, compute_s, configs) / MS_TO_S)
        return expected

    def jacobian(self, configs: Sequence[Config], trials: Sequence[Trial]) -> Array:
        """Return the change of ln(step time) per prior standard deviation of each unknown, shape (m, 7).

        Args:
            configs: Configs of the engine.
            trials: All trials so far, the baseline first.
        """
        return sensitivities(self._job, *self._calibrated(trials), configs)

    def _calibrated(self, trials: Sequence[Trial]) -> tuple[EngineCosts, float]:
        """Return the calibrated constants and the compute time, seconds; cached per tuple of trials."""
        asked = tuple(trials)
        for fitted_to, fitted in self._fits:
            if fitted_to == asked:
                return fitted
        self._fits.appendleft((asked, self._fit(asked)))
        return self._fits[0][1]

    def _fit(self, trials: Sequence[Trial]) -> tuple[EngineCosts, float]:
        """Return the fitted constants and the compute time, seconds."""
        measured = [trial for trial in trials if trial.is_conclusive]
        if not measured:
            return calibrated(self._job, self._costs, [trials[0].config], [MS_TO_S * UNMEASURED_STEP_MS])
        step_s = [MS_TO_S * float(np.exp(np.median(trial.log_step_ms))) for trial in measured]
        return calibrated(self._job, self._costs, [trial.config for trial in measured], step_s)
