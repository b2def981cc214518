# SPDX-License-Identifier: Apache-2.0
"""What a designer believes the best config to be worth, now and once its suggestion was measured.

A sample of the suggestion moves what is believed of every config that shares something unknown with it, and the pick is
made by what is believed then (the knowledge gradient: Frazier, Powell & Dayanik 2009, "The knowledge-gradient policy
for correlated normal beliefs"). So another sample of the config that is picked anyway promises little, and so
does one of its neighbour, however little is known of both.
"""

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

NODES = 9
"""Equally probable outcomes that an expectation is taken over."""
NORMALS = np.array([NormalDist().inv_cdf((index + 0.5) / NODES) for index in range(NODES)])
"""Standard normal, one for each."""


class Gain(NamedTuple):
    """What the config that would be picked gains over the baseline, as ln(baseline / config).

    Attributes:
        mean: Expected; 0 where the baseline would be picked.
        std: By how much it may differ from that.
    """

    mean: float
    std: float


@dataclass(frozen=True)
class Belief:
    """The posterior of ln(typical step time) of n measured configs, the baseline first, and of a suggestion.

    Attributes:
        means: The suggestion's last, shape (n + 1,).
        covariance: Of noise-free values, shape (n + 1, n + 1).
    """

    means: Array
    covariance: Array

    def less_sure(self, factor: float) -> "Belief":
        """Return the same with all standard deviations times a factor."""
        return Belief(self.means, factor**2 * self.covariance)

    def gain(self) -> Gain:
        """Return that of the measured config with the lowest mean."""
        return _gain_of(self._best, self.means, self._variances)

    def gains_after(self, noise_variance: float) -> list[Gain]:
        """Return those that a sample of the suggestion may lead to, equally probable.

        Args:
            noise_variance: Of the sample, above zero.
        """
        means, variances = self._after(noise_variance)
        return [_gain_of(int(best), of, variances) for of, best in zip(means.T, np.argmin(means, axis=0), strict=True)]

    def gains_if_kept(self, noise_variance: float) -> list[Gain]:
        """Return those of what is picked now, as the same outcomes tell: on average they are worth what it is.

        Args:
            noise_variance: As of `gains_after`.
        """
        means, variances = self._after(noise_variance)
        return [_gain_of(self._best, of, variances) for of in means.T]

    @property
    def _best(self) -> int:
        return int(np.argmin(self.means[:-1]))

    def _after(self, noise_variance: float) -> tuple[Array, Array]:
        """Return the means that a sample may lead to, shape (n + 1, NODES), and the variances as of `_variances`."""
        shared = self.covariance[:, -1]
        moves = shared / math.sqrt(max(float(shared[-1]), 0.0) + noise_variance)
        means: Array = self.means[:, None] + moves[:, None] * NORMALS
        return means, self._variances - (moves - moves[0]) ** 2

    @property
    def _variances(self) -> Array:
        """Of each config's difference to the baseline, shape (n + 1,)."""
        variances: Array = self.covariance[0, 0] + np.diag(self.covariance) - 2.0 * self.covariance[0]
        return variances


def _gain_of(config: int, means: Array, variances: Array) -> Gain:
    """Return that of one config.

    Args:
        config: Its index.
        means: Of ln(step time), the baseline's first, shape (n + 1,).
        variances: Of each config's difference to the baseline, shape (n + 1,).
    """
    return Gain(float(means[0] - means[config]), math.sqrt(max(float(variances[config]), 0.0)))
