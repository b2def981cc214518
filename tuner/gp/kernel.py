# SPDX-License-Identifier: Apache-2.0
"""The Matern 5/2 kernel with one length scale per coordinate, and its derivatives.

Source: Rasmussen & Williams 2006, eq. 4.17.

| symbol | meaning | shape |
|---|---|---|
| X, Z | encoded configs, one per row | (n, d), (m, d) |
| l | length scales | (d,) |
| r | distance, with each coordinate divided by its length scale | (n, m) |
"""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_SQRT_5 = np.sqrt(5.0)


def squared_differences(x: Array, z: Array) -> Array:
    """Return (x - z)^2 per coordinate, shape (d, n, m)."""
    differences: Array = (x.T[:, :, None] - z.T[:, None, :]) ** 2
    return differences


def correlations(squares: Array, lengths: Array) -> Array:
    """Return (1 + sqrt(5) r + 5/3 r^2) exp(-sqrt(5) r), shape (n, m).

    Args:
        squares: Squared differences per coordinate, shape (d, n, m).
        lengths: Length scales, shape (d,).
    """
    return correlations_and_slopes(squares, lengths)[0]


def correlations_and_slopes(squares: Array, lengths: Array) -> tuple[Array, Array]:
    """Return the correlations, and the slopes that give their derivatives with respect to ln(length scale).

    The derivative of entry (i, j) with respect to ln l_k is slope (i, j) times the squared difference of coordinate k,
    divided by l_k^2.

    Args:
        squares: Squared differences per coordinate, shape (d, n, m).
        lengths: Length scales, shape (d,).

    Returns:
        Correlations and slopes, shape (n, m) each.
    """
    scaled = _SQRT_5 * _distances(squares, lengths)
    decay = np.exp(-scaled)
    slopes: Array = 5.0 / 3.0 * (1.0 + scaled) * decay
    matern: Array = (1.0 + scaled + scaled**2 / 3.0) * decay
    return matern, slopes


def _distances(squares: Array, lengths: Array) -> Array:
    dimension, rows, columns = squares.shape
    distances: Array = np.sqrt(lengths**-2 @ squares.reshape(dimension, rows * columns)).reshape(rows, columns)
    return distances
