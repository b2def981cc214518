# SPDX-License-Identifier: Apache-2.0
"""The Matern 5/2 kernel with a length scale per coordinate, and its derivatives (Rasmussen & Williams 2006, eq. 4.17).

| symbol | meaning | shape |
|---|---|---|
| X, Z | encoded configs, one per row | (n, d), (m, d) |
| l | length scales | (d,) |
| r | distance, each coordinate in units of its length scale | (n, m) |
"""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_SQRT_5 = np.sqrt(5.0)


def squared_differences(x: Array, z: Array) -> Array:
    """Return (x - z)^2 by coordinate, shape (d, n, m)."""
    differences: Array = (x.T[:, :, None] - z.T[:, None, :]) ** 2
    return differences


def correlations(squares: Array, lengths: Array) -> Array:
    """Return (1 + sqrt(5) r + 5/3 r^2) exp(-sqrt(5) r), shape (n, m).

    Args:
        squares: Of the coordinates' differences, shape (d, n, m).
        lengths: Length scales, shape (d,).
    """
    r = _distances(squares, lengths)
    matern: Array = (1.0 + _SQRT_5 * r + 5.0 / 3.0 * r**2) * np.exp(-_SQRT_5 * r)
    return matern


def length_derivatives(squares: Array, lengths: Array) -> Array:
    """Return the derivatives of the correlations by the logarithm of each length scale, shape (d, n, m).

    Args:
        squares: Of the coordinates' differences, shape (d, n, m).
        lengths: Length scales, shape (d,).
    """
    r = _distances(squares, lengths)
    common = 5.0 / 3.0 * (1.0 + _SQRT_5 * r) * np.exp(-_SQRT_5 * r)
    derivatives: Array = common * squares / (lengths**2)[:, None, None]
    return derivatives


def _distances(squares: Array, lengths: Array) -> Array:
    distances: Array = np.sqrt(np.tensordot(lengths**-2, squares, axes=1))
    return distances
