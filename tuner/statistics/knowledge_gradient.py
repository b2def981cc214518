# SPDX-License-Identifier: Apache-2.0
"""The knowledge gradient: the expected change of the lowest posterior mean after one more noisy sample.

A sample of one config moves the posterior mean of every correlated config, and the config with the lowest new mean is
picked (Frazier, Powell & Dayanik 2009, "The knowledge-gradient policy for correlated normal beliefs"). One more sample
of a config that would be picked anyway is worth little. So is a sample of its neighbour, however uncertain both are.
"""

from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

OUTCOMES = 32
"""Number of equally probable outcomes of a sample, over which an expectation is averaged."""
_NORMALS = np.array([NormalDist().inv_cdf((index + 0.5) / OUTCOMES) for index in range(OUTCOMES)])


def expected_lowest_mean(means: Array, covariances: Array, variances: Array, noise_variance: float) -> Array:
    """Return the expected lowest posterior mean after one more sample, for each config that may be sampled.

    Args:
        means: Posterior means of the n configs that may be picked, shape (n,).
        covariances: Posterior covariances of the k configs that may be sampled with those n, shape (k, n).
        variances: Posterior variances of the k configs that may be sampled, shape (k,).
        noise_variance: Variance of the noise of one sample, above zero.

    Returns:
        Shape (k,), ln(step time).
    """
    moves = covariances / np.sqrt(variances + noise_variance)[:, None]
    lowest: Array = (means + moves[:, None, :] * _NORMALS[:, None]).min(axis=2).mean(axis=1)
    return lowest
