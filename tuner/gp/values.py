# SPDX-License-Identifier: Apache-2.0
"""What goes into the process and what comes out of it: arrays alone, known without scipy."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ringtune.tuner.policy_numbers import POLICY

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Points:
    """Where the process is observed or asked.

    Attributes:
        x: Encoded configs, shape (n, d); one config may have several rows.
        trend: What ln(step time) is expected to be there before anything was measured, up to a constant, shape (n,);
            zeros where nothing is expected.
        directions: By how much the trend would be higher if one of the k unknowns that it depends on were a standard
            deviation larger, shape (n, k).
    """

    x: Array
    trend: Array
    directions: Array

    @classmethod
    def without_trend(cls, x: Array) -> "Points":
        """Return encoded configs, shape (n, d), of which nothing is expected."""
        return cls.with_trend(x, np.zeros(len(x)))

    @classmethod
    def with_trend(cls, x: Array, trend: Array) -> "Points":
        """Return encoded configs, shape (n, d), with a trend, shape (n,), that depends on nothing unknown."""
        return cls(x, trend, np.zeros((len(x), 0)))


@dataclass(frozen=True)
class Observations:
    """What was measured.

    Attributes:
        points: The configs, n of them.
        y: ln(step time), shape (n,), finite.
        variance: Variance of each that its own steps explain, shape (n,).
        nugget_std: Standard deviation of a config's value about what its neighbours predict.
    """

    points: Points
    y: Array
    variance: Array
    nugget_std: float = POLICY.nugget_std


class JointPosterior(NamedTuple):
    """What is known of the noise-free values of m measured configs and c candidates together.

    Attributes:
        measured: Means of the measured ones, shape (m,).
        candidates: Means of the candidates, shape (c,).
        within: Covariance of the measured ones, shape (m, m).
        between: Covariance of measured ones and candidates, shape (m, c).
        variances: Of the candidates, shape (c,).
    """

    measured: Array
    candidates: Array
    within: Array
    between: Array
    variances: Array
