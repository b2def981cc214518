# SPDX-License-Identifier: Apache-2.0
"""The model behind the skopt designer: scikit-optimize's Gaussian process and expected improvement, typed.

Importing this takes seconds (scikit-learn); the designer does so in its own thread.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from skopt.acquisition import gaussian_ei
from skopt.learning import GaussianProcessRegressor
from skopt.learning.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

from .single_threaded import quiet_and_modest

Array = NDArray[np.float64]

MIN_GAIN = 0.005
"""Improvements below half a percent are not worth a trial (skopt's xi)."""
AMPLITUDE_BOUNDS = (0.05, 20.0)
NOISE_BOUNDS = (1e-4, 1.0)
"""Variance of the noise over that of y: from 1 % of its spread to all of it (a flat surface)."""
LENGTH_BOUNDS = (0.1, 10.0)
"""Length scales in encoded units: 0.1 is the finest a budget of twenty can see, 10 makes a parameter irrelevant."""


class GaussianProcess:
    """A fitted process over encoded configs."""

    def __init__(self, regressor: Any) -> None:
        """Wrap scikit-optimize's fitted regressor."""
        self._regressor = regressor

    def predict(self, x: Array) -> tuple[Array, Array]:
        """Return means and standard deviations of the noise-free value, shape (m,) each, for x of shape (m, d)."""
        with quiet_and_modest():
            mean, std = self._regressor.predict(x, return_std=True)
        return np.asarray(mean, dtype=float), np.asarray(std, dtype=float)

    def expected_improvement(self, x: Array, best: float) -> Array:
        """Return by how much each candidate should fall below `best`, the lowest posterior mean of a measured config.

        Args:
            x: Encoded candidates, shape (m, d).
            best: ln(step time).

        Returns:
            Shape (m,), non-negative.
        """
        with quiet_and_modest():
            gains: Array = np.asarray(gaussian_ei(x, self._regressor, y_opt=best, xi=MIN_GAIN), dtype=float)
        return gains


def fitted_model(x: Array, y: Array, seed: int) -> GaussianProcess:
    """Return the process fitted by maximum likelihood: Matern 5/2, a length scale per coordinate, fitted noise.

    Args:
        x: Encoded configs, shape (n, d).
        y: ln(step time), shape (n,), finite: one that is not would spoil the fit.
        seed: Decides the restarts.
    """
    shape = Matern(np.ones(x.shape[1]), [LENGTH_BOUNDS] * x.shape[1], nu=2.5)
    kernel = ConstantKernel(1.0, AMPLITUDE_BOUNDS) * shape + WhiteKernel(0.05, NOISE_BOUNDS)
    regressor = GaussianProcessRegressor(
        kernel=kernel, normalize_y=True, noise="gaussian", n_restarts_optimizer=1, random_state=seed
    )
    with quiet_and_modest():
        return GaussianProcess(regressor.fit(x, y))
