# SPDX-License-Identifier: Apache-2.0
"""The model behind the Horovod designer: its Gaussian process and expected improvement, restated with scipy.

Importing this takes half a second (scipy); the designer does so in its own thread.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, cholesky
from scipy.optimize import minimize
from scipy.special import ndtr

Array = NDArray[np.float64]

NOISE = 0.8
"""Standard deviation of the noise, of standardised scores: never estimated."""
XI = 0.01
RESTARTS = 25
MAX_ITERATIONS = 100
STANDARDISED_FROM = 3
_SQRT_2_PI = np.sqrt(2.0 * np.pi)
_LEAST = 1e-12
_ROUNDING = 1e-10
"""Share of the amplitude's square that keeps the covariance positive definite beside raw scores of any size."""


class HorovodModel:
    """A process with a squared-exponential kernel, one length scale for all coordinates, inputs as they are."""

    def __init__(self, x: Array, scores: Array) -> None:
        """Fit length scale and amplitude by maximum likelihood from (1, 1).

        Args:
            x: Values of the knobs, shape (n, k).
            scores: To be maximised, shape (n,).
        """
        self._x = x
        self._y = _standardised(scores)
        fit = minimize(
            self._negative_log_likelihood, [1.0, 1.0], method="L-BFGS-B", options={"maxiter": MAX_ITERATIONS}
        )
        self._length, self._amplitude = (float(value) for value in fit.x)
        self._factor = self._factorised(self._length, self._amplitude)
        self._weights: Array = cho_solve((self._factor, True), self._y)

    def most_promising(self, box: list[tuple[float, float]], rng: np.random.Generator) -> Array:
        """Return where expected improvement is the largest, found from random starts; shape (k,)."""
        best = float(self.predict(self._x)[0].max())
        starts = [np.array([rng.uniform(low, high) for low, high in box]) for _ in range(RESTARTS)]
        found = [minimize(lambda z: -self._gain(z, best), start, method="L-BFGS-B", bounds=box) for start in starts]
        winner: Array = min(found, key=lambda result: float(result.fun)).x
        return winner

    def predict(self, x: Array) -> tuple[Array, Array]:
        """Return mean and standard deviation, shape (m,) each, for x of shape (m, k)."""
        cross = self._kernel(self._x, x, self._length, self._amplitude)
        mean: Array = cross.T @ self._weights
        variance = self._amplitude**2 - np.sum(cross * cho_solve((self._factor, True), cross), axis=0)
        return mean, np.sqrt(np.maximum(variance, _LEAST))

    def _gain(self, z: Array, best: float) -> float:
        (mean,), (std,) = self.predict(z[None, :])
        improvement = mean - best - XI
        ratio = improvement / std
        return float(improvement * ndtr(ratio) + std * np.exp(-0.5 * ratio**2) / _SQRT_2_PI)

    def _negative_log_likelihood(self, theta: Array) -> float:
        factor = self._factorised(float(theta[0]), float(theta[1]))
        weights = cho_solve((factor, True), self._y)
        return 0.5 * float(self._y @ weights) + float(np.sum(np.log(np.diag(factor))))

    def _factorised(self, length: float, amplitude: float) -> Array:
        noise = NOISE**2 + _ROUNDING * amplitude**2  # Horovod inverts the matrix as it is, definite or not
        covariance = self._kernel(self._x, self._x, length, amplitude) + noise * np.eye(len(self._x))
        factor: Array = cholesky(covariance, lower=True)
        return factor

    @staticmethod
    def _kernel(x: Array, z: Array, length: float, amplitude: float) -> Array:
        squares = np.sum((x[:, None, :] - z[None, :, :]) ** 2, axis=2)
        kernel: Array = amplitude**2 * np.exp(-0.5 * squares / max(length**2, _LEAST))
        return kernel


def _standardised(scores: Array) -> Array:
    """Return the scores as Horovod does, raw while they are few; zeros if all are equal, where it divides by zero."""
    if len(scores) < STANDARDISED_FROM:
        return scores
    if np.ptp(scores) == 0.0:
        return np.zeros_like(scores)
    standardised: Array = (scores - np.mean(scores)) / np.std(scores)
    return standardised
