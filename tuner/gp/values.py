# SPDX-License-Identifier: Apache-2.0
"""Inputs and outputs of the Gaussian process: plain arrays, importable without scipy."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Points:
    """Encoded configs with the prior mean at each.

    Attributes:
        x: Encoded configs, shape (n, d); one config may have several rows.
        prior_mean: ln(step time) expected before any sample, up to a constant, shape (n,); zeros without a prior.
        prior_jacobian: Change of the prior mean per standard deviation of each of its k unknowns, shape (n, k).
    """

    x: Array
    prior_mean: Array
    prior_jacobian: Array

    @classmethod
    def without_prior(cls, x: Array) -> "Points":
        """Return encoded configs, shape (n, d), with a flat prior mean."""
        return cls.with_prior(x, np.zeros(len(x)))

    @classmethod
    def with_prior(cls, x: Array, prior_mean: Array) -> "Points":
        """Return encoded configs, shape (n, d), with a prior mean, shape (n,), that has no unknowns."""
        return cls(x, prior_mean, np.zeros((len(x), 0)))


@dataclass(frozen=True)
class Observations:
    """Noisy samples of ln(step time).

    Attributes:
        points: Configs of the samples, n rows.
        y: ln(step time), shape (n,), finite.
        variance: Variance of each y that the scatter of its own steps explains, shape (n,).
    """

    points: Points
    y: Array
    variance: Array


class JointPosterior(NamedTuple):
    """Joint posterior of the noise-free values of m measured configs and c candidates.

    Attributes:
        measured: Means of the measured configs, shape (m,).
        candidates: Means of the candidates, shape (c,).
        within: Covariance of the measured configs, shape (m, m).
        between: Covariance of measured configs with candidates, shape (m, c).
        variances: Variances of the candidates, shape (c,).
    """

    measured: Array
    candidates: Array
    within: Array
    between: Array
    variances: Array
