# SPDX-License-Identifier: Apache-2.0
"""Acquisition under noise: noisy expected improvement.

Noise hides which measured config is the best, and how good it is. Noisy expected improvement therefore averages the
improvement over the posterior of the noise-free values of all measured configs (Letham, Karrer, Ottoni & Bakshy 2019,
"Constrained Bayesian optimization with noisy experiments", eq. 3).

It never suggests a measured config: no noise-free value improves on itself. The knowledge gradient covers repeats
(`statistics.knowledge_gradient`).
"""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular
from scipy.special import ndtr

from .values import JointPosterior

Array = NDArray[np.float64]

_SQRT_2_PI = np.sqrt(2.0 * np.pi)
JITTER = 1e-8
"""Variance added to the diagonal before the Cholesky factorisation: posterior variances may be zero."""
LEAST_STD = 1e-9
"""Lower bound of a standard deviation that divides, ln(step time)."""


def noisy_expected_improvement(posterior: JointPosterior, normals: Array) -> Array:
    """Return the noisy expected improvement of each candidate over the best measured config, in ln(step time).

    Args:
        posterior: Joint posterior of m measured configs and c candidates.
        normals: Standard normal numbers, one row per draw of the measured configs' values, shape (s, m).

    Returns:
        Shape (c,), non-negative.
    """
    factor = cholesky(posterior.within + np.diag(np.full(len(posterior.measured), JITTER)), lower=True)
    drawn = posterior.measured + normals @ factor.T
    # Conditional on a draw, a candidate's mean depends on the draw and its variance does not.
    reduced = solve_triangular(factor, posterior.between, lower=True)
    means = posterior.candidates + normals @ reduced
    std = np.sqrt(np.maximum(posterior.variances - np.sum(reduced**2, axis=0), LEAST_STD**2))
    gains = drawn.min(axis=1, keepdims=True) - means
    ratio = gains / std
    density = np.exp(-0.5 * ratio**2) / _SQRT_2_PI
    improvement: Array = np.maximum(gains * ndtr(ratio) + std * density, 0.0).mean(axis=0)
    return improvement
