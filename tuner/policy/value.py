# SPDX-License-Identifier: Apache-2.0
"""Value of information: the expected improvement of the picked config through one more sample.

It is the knowledge gradient of the suggestion (`statistics.knowledge_gradient`).
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ringtune.tuner.statistics.knowledge_gradient import expected_lowest_mean

Array = NDArray[np.float64]


class Gain(NamedTuple):
    """Posterior gain of the picked config over the baseline, ln(baseline / config).

    Attributes:
        mean: Posterior mean; 0 if the baseline is picked.
        std: Posterior standard deviation.
    """

    mean: float
    std: float


@dataclass(frozen=True)
class Posterior:
    """Joint posterior of ln(typical step time) of n measured configs, the baseline first, and of a suggestion.

    Attributes:
        means: Posterior means, the suggestion's last, shape (n + 1,).
        covariance: Covariance of the noise-free values, shape (n + 1, n + 1).
    """

    means: Array
    covariance: Array

    @property
    def best(self) -> int:
        """Index of the measured config with the lowest mean."""
        return int(np.argmin(self.means[:-1]))

    @property
    def suggestion_std(self) -> float:
        """Posterior standard deviation of the suggestion."""
        return math.sqrt(max(float(self.covariance[-1, -1]), 0.0))

    def gain(self) -> Gain:
        """Return the posterior gain of the measured config with the lowest mean."""
        best, covariance = self.best, self.covariance
        variance = covariance[0, 0] + covariance[best, best] - 2.0 * covariance[0, best]
        return Gain(float(self.means[0] - self.means[best]), math.sqrt(max(float(variance), 0.0)))

    def value_of_sample(self, noise_variance: float) -> float:
        """Return the expected decrease of the lowest mean through one sample of the suggestion, ln(step time).

        Args:
            noise_variance: Noise variance of the sample, above zero.
        """
        shared = self.covariance[-1:]
        variance = np.maximum(shared[:, -1], 0.0)
        (lowest,) = expected_lowest_mean(self.means, shared, variance, noise_variance)
        return float(self.means[:-1].min() - lowest)
