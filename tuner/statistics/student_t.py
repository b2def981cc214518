# SPDX-License-Identifier: Apache-2.0
"""Quantiles of Student's t and of the normal distribution.

scipy is imported at the first use: its import is slow, and only rank 0 needs it.
"""

from statistics import NormalDist


def student_t_quantile(degrees_of_freedom: float, probability: float) -> float:
    """Return the value that a Student's t variable stays below with the given probability.

    Args:
        degrees_of_freedom: At least 1.
        probability: Between 0 and 1, exclusive.
    """
    from scipy.special import stdtrit  # noqa: PLC0415

    return float(stdtrit(degrees_of_freedom, probability))


def normal_quantile(probability: float) -> float:
    """Return the value that a standard normal variable stays below with the given probability.

    Args:
        probability: Between 0 and 1, exclusive.
    """
    return NormalDist().inv_cdf(probability)
