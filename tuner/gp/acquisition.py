# SPDX-License-Identifier: Apache-2.0
"""What a sample is expected to bring where the best measured value is itself uncertain.

With noise nobody knows which config is the best so far, nor how good it is. So the improvement is averaged over what
the noise-free values of all measured configs may be (noisy expected improvement: Letham, Karrer, Ottoni & Bakshy 2019,
"Constrained Bayesian optimization with noisy experiments", eq. 3).

A noise-free value improves on nothing once its config was measured, so that this never asks for a second sample. What
one more sample of any config would do to the pick, noise included, the knowledge gradient says (Frazier, Powell &
Dayanik 2009, "The knowledge-gradient policy for correlated normal beliefs").
"""

from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular
from scipy.special import ndtr

from .values import JointPosterior

Array = NDArray[np.float64]

_SQRT_2_PI = np.sqrt(2.0 * np.pi)
JITTER = 1e-8
"""Added to the measured configs' variances, which may be nothing."""
LEAST_STD = 1e-9
OUTCOMES = 32
"""Equally probable ones of a sample, that an expectation is taken over."""
_NORMALS = np.array([NormalDist().inv_cdf((index + 0.5) / OUTCOMES) for index in range(OUTCOMES)])


def noisy_expected_improvement(posterior: JointPosterior, normals: Array) -> Array:
    """Return by how much each candidate should fall below the best of the measured configs, in ln(step time).

    Args:
        posterior: Of m measured configs and c candidates.
        normals: Standard normal numbers, a row per draw of the measured configs' values, shape (s, m).

    Returns:
        Shape (c,), non-negative.
    """
    factor = cholesky(posterior.within + np.diag(np.full(len(posterior.measured), JITTER)), lower=True)
    drawn = posterior.measured + normals @ factor.T
    # A candidate's value given a draw: its mean moves with the draw, its variance does not depend on it.
    reduced = solve_triangular(factor, posterior.between, lower=True)
    means = posterior.candidates + normals @ reduced
    std = np.sqrt(np.maximum(posterior.variances - np.sum(reduced**2, axis=0), LEAST_STD**2))
    gains = drawn.min(axis=1, keepdims=True) - means
    ratio = gains / std
    density = np.exp(-0.5 * ratio**2) / _SQRT_2_PI
    improvement: Array = np.maximum(gains * ndtr(ratio) + std * density, 0.0).mean(axis=0)
    return improvement


def expected_lowest_mean(means: Array, covariances: Array, variances: Array, noise_variance: float) -> Array:
    """Return how low the lowest posterior mean should be once a config has one sample more.

    Args:
        means: Of the n configs that may be picked then, shape (n,).
        covariances: Of each of k configs that may be sampled with those that may be picked, shape (k, n).
        variances: Of the configs that may be sampled, shape (k,).
        noise_variance: Of a sample, above zero.

    Returns:
        Shape (k,), ln(step time).
    """
    moves = covariances / np.sqrt(variances + noise_variance)[:, None]
    lowest: Array = (means + moves[:, None, :] * _NORMALS[:, None]).min(axis=2).mean(axis=1)
    return lowest
