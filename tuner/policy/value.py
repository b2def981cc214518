# SPDX-License-Identifier: Apache-2.0
"""Value of information: by how much one more sample is expected to improve what is picked.

A sample of one config moves the expectation of every config that shares something unknown with it, and the pick is made
by what is expected then (the knowledge gradient: Frazier, Powell & Dayanik 2009, "The knowledge-gradient policy for
correlated normal beliefs"). Another sample of a config that would be picked anyway is worth little, and so is one of
its neighbour, however little is known of both.
"""

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

OUTCOMES = 32
"""Equally probable results of a sample, over which an expectation is taken."""
_NORMALS = np.array([NormalDist().inv_cdf((index + 0.5) / OUTCOMES) for index in range(OUTCOMES)])


class Gain(NamedTuple):
    """Gain of the config that would be picked over the baseline, as ln(baseline / config).

    Attributes:
        mean: Expected; 0 where the baseline would be picked.
        std: Posterior standard deviation.
    """

    mean: float
    std: float


@dataclass(frozen=True)
class Posterior:
    """Posterior of ln(typical step time) of n measured configs, the baseline first, and of a suggestion.

    Attributes:
        means: The suggestion's last, shape (n + 1,).
        covariance: Of noise-free values, shape (n + 1, n + 1).
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
        """Return the gain of the measured config with the lowest mean."""
        best, covariance = self.best, self.covariance
        variance = covariance[0, 0] + covariance[best, best] - 2.0 * covariance[0, best]
        return Gain(float(self.means[0] - self.means[best]), math.sqrt(max(float(variance), 0.0)))

    def value_of_sample(self, noise_variance: float) -> float:
        """Return by how much the lowest mean is expected to fall once the suggestion was measured, ln(step time).

        Args:
            noise_variance: Of the sample, above zero.
        """
        shared = self.covariance[:, -1]
        moves = shared / math.sqrt(max(float(shared[-1]), 0.0) + noise_variance)
        lowest = (self.means[:, None] + moves[:, None] * _NORMALS).min(axis=0)
        return float(self.means[:-1].min() - lowest.mean())
