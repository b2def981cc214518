# SPDX-License-Identifier: Apache-2.0
"""Probability that a config works: the launch succeeds, and memory suffices.

Failures come in regions: a block too large for the machine fails with every value of the other knobs. A Gaussian
process over all tried configs, +1 for each that failed and -1 for each that worked, learns which knobs decide (least-
squares classification: Rasmussen & Williams 2006, section 6.5). Its length scales tell the knobs that matter here from
those that matter to the step time, so that it is a process of its own.

The probability weighs expected improvement (Gelbart, Snoek & Adams 2014, "Bayesian optimization with unknown
constraints", eq. 7).
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from .process import fitted_process
from .values import Observations, Points

Array = NDArray[np.float64]

LABEL_VARIANCE = 0.05
"""Variance of a label: a boundary between two tried configs lies anywhere between them."""
DECISION_STD = 0.3
"""Standard deviation of the threshold between failing and working; it keeps the probability away from 0 and 1."""


class Feasibility:
    """Model of the configs that fail, fitted to at least one that failed and one that worked."""

    def __init__(self, worked: Array, failed: Array) -> None:
        """Fit the model.

        Args:
            worked: Encoded configs that were measured, shape (n, d).
            failed: Encoded configs that failed, shape (m, d).
        """
        x = np.concatenate([worked, failed])
        labels = np.repeat([-1.0, 1.0], [len(worked), len(failed)])
        observed = Observations(Points.without_prior(x), labels, np.full(len(x), LABEL_VARIANCE))
        self._process = fitted_process(observed)

    def probability(self, x: Array) -> Array:
        """Return the probability that encoded configs work, shape (m, d) to (m,)."""
        mean, std = self._process.predict(Points.without_prior(x))
        probability: Array = ndtr(-mean / np.sqrt(std**2 + DECISION_STD**2))
        return probability
