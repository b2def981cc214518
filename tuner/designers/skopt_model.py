# SPDX-License-Identifier: Apache-2.0
"""The model of the skopt designer: typed access to scikit-optimize's Gaussian process and expected improvement.

The import takes seconds (scikit-learn); the designer imports this module in its own thread.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from skopt.acquisition import gaussian_ei
from skopt.learning import GaussianProcessRegressor
from skopt.learning.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

from .single_threaded import single_threaded

Array = NDArray[np.float64]

MIN_GAIN = 0.005
"""Smallest improvement that is worth a trial, ln(step time): half a percent (skopt's xi)."""
AMPLITUDE_BOUNDS = (0.05, 20.0)
"""Bounds of the kernel's variance, as a multiple of that of y."""
NOISE_BOUNDS = (1e-4, 1.0)
"""Bounds of the noise variance, as a fraction of that of y: from 1 % of its spread to all of it (a flat surface)."""
LENGTH_BOUNDS = (0.1, 10.0)
"""Bounds of the length scales, encoded units: twenty samples resolve 0.1 at best; 10 is an irrelevant parameter."""


class SkoptProcess:
    """Fitted process over encoded configs."""

    def __init__(self, regressor: Any) -> None:
        """Wrap scikit-optimize's fitted regressor."""
        self._regressor = regressor

    def predict(self, x: Array) -> tuple[Array, Array]:
        """Return means and standard deviations of the noise-free value, shape (m,) each, for x of shape (m, d)."""
        with single_threaded():
            mean, std = self._regressor.predict(x, return_std=True)
        return np.asarray(mean, dtype=float), np.asarray(std, dtype=float)

    def expected_improvement(self, x: Array, best: float) -> Array:
        """Return the expected improvement of each candidate over `best`.

        Args:
            x: Encoded candidates, shape (m, d).
            best: Lowest posterior mean of a measured config, ln(step time).

        Returns:
            Expected improvements, shape (m,), non-negative.
        """
        with single_threaded():
            gains: Array = np.asarray(gaussian_ei(x, self._regressor, y_opt=best, xi=MIN_GAIN), dtype=float)
        return gains


def fitted_model(x: Array, y: Array, seed: int) -> SkoptProcess:
    """Return the process fitted by maximum likelihood: Matern 5/2, one length scale per coordinate, fitted noise.

    Args:
        x: Encoded configs, shape (n, d).
        y: ln(step time), shape (n,); must be finite.
        seed: Seed of the restarts.
    """
    shape = Matern(np.ones(x.shape[1]), [LENGTH_BOUNDS] * x.shape[1], nu=2.5)
    kernel = ConstantKernel(1.0, AMPLITUDE_BOUNDS) * shape + WhiteKernel(0.05, NOISE_BOUNDS)
    regressor = GaussianProcessRegressor(
        kernel=kernel, normalize_y=True, noise="gaussian", n_restarts_optimizer=1, random_state=seed
    )
    with single_threaded():
        return SkoptProcess(regressor.fit(x, y))
