# SPDX-License-Identifier: Apache-2.0
"""A Gaussian process over encoded configs, fitted to noisy ln(step time) by its most probable hyper-parameters.

| symbol | meaning | shape |
|---|---|---|
| X | encoded configs of the samples, one per row | (n, d) |
| t | prior mean of ln(step time), up to a constant | (n,) |
| y | ln(step time) of each sample, minus t and a constant | (n,) |
| v | variance of each y that the scatter of its own steps explains | (n,) |
| s | noise: standard deviation between windows of one config, beyond v | |
| a | amplitude: standard deviation between configs | |
| l | length scales of M, the Matern 5/2 kernel (`kernel`) | (d,) |
| J | change of t per standard deviation of each of the k unknowns of the prior | (n, k) |
| c | standard deviation of the unknown constant (`CONSTANT_STD`) | |
| b | standard deviation of the factor g of the prior mean (`PRIOR_FACTOR_STD`) | |
| S | a^2 M(X, X) + c^2 11' + b^2 tt' + JJ' + diag(v + s^2), the covariance of y | (n, n) |

The prior mean comes from a cost model or an earlier study, and its scale may be wrong: ln(step time) = g t + J u + ...
The factor g has mean 1 and variance b^2. The unknowns u, with mean 0 and variance 1, are the deviations of the prior's
constants from their assumed values. Both are integrated out like the constant (Rasmussen & Williams 2006, section 2.7).
Without u, the process would be equally certain of configs whose cost depends on a constant that no sample has measured.
Priors are compared by their evidence (`GaussianProcess.log_evidence`).

The hyper-parameters l, a and s have log-normal priors: ten samples cannot distinguish an irrelevant parameter from a
long length scale, nor noise from a short one. L-BFGS with analytic gradients finds the mode (Rasmussen & Williams 2006,
eq. 5.9).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_solve, cholesky, solve_triangular
from scipy.linalg.lapack import dpotrf, dpotri
from scipy.optimize import minimize

from ringtune.tuner.statistics.knowledge_gradient import expected_lowest_mean

from .acquisition import noisy_expected_improvement
from .blas import ONE_BLAS_THREAD
from .kernel import correlations, correlations_and_slopes, squared_differences
from .values import JointPosterior, Observations, Points

Array = NDArray[np.float64]

CONSTANT_STD = 1.0
"""Standard deviation of the unknown constant about the median of the samples, ln(step time)."""
PRIOR_FACTOR_STD = 0.5
"""Standard deviation of the factor that scales a prior mean."""
JITTER = 1e-8
"""Variance added to the diagonal, so that the Cholesky factorisation succeeds."""
TOLERANCE = 1e-7
"""Relative tolerance of the fit: smaller improvements of the evidence do not matter."""


class LogNormal(NamedTuple):
    """Log-normal prior of a positive hyper-parameter, with the bounds of its search."""

    median: float
    log_std: float
    low: float
    high: float


LENGTH = LogNormal(0.5, 0.8, 0.05, 20.0)
"""Length scales in encoded units, in which the range of a number, or of a switch, is 1."""
AMPLITUDE = LogNormal(0.15, 1.0, 0.005, 3.0)
"""Standard deviation between configs, ln(step time)."""
NOISE = LogNormal(0.015, 1.0, 0.0005, 0.5)
"""Standard deviation between windows of one config, ln(step time)."""


@dataclass(frozen=True)
class Hyperparameters:
    """Hyper-parameters l, a and s of the kernel and the noise; see the table above."""

    lengths: Array
    amplitude: float
    noise: float

    @classmethod
    def from_logs(cls, theta: Array) -> "Hyperparameters":
        """Return the hyper-parameters for the logarithms of lengths, amplitude and noise, shape (d + 2,)."""
        values = np.exp(theta)
        return cls(values[:-2], float(values[-2]), float(values[-1]))

    def to_logs(self) -> Array:
        """Return the logarithms in the order of `from_logs`, shape (d + 2,)."""
        logs: Array = np.log(np.array([*self.lengths, self.amplitude, self.noise]))
        return logs


class GaussianProcess:
    """Gaussian process conditioned on observations, with given hyper-parameters."""

    def __init__(self, observed: Observations, parameters: Hyperparameters) -> None:
        """Factorise the covariance; O(n^3)."""
        self.parameters = parameters
        self._points = observed.points
        self._sample_variance = float(np.median(observed.variance)) + parameters.noise**2
        self._level, self._residual = _level_and_residual(observed)
        covariance = self._covariance(observed.points, observed.points)
        covariance += np.diag(observed.variance + parameters.noise**2 + JITTER)
        self._factor: Array = cholesky(covariance, lower=True)
        self._weights: Array = cho_solve((self._factor, True), self._residual)

    @property
    def prior_factor(self) -> float:
        """The posterior mean of the factor g of the prior mean; 1 where the prior mean is flat."""
        return 1.0 + PRIOR_FACTOR_STD**2 * float(self._points.prior_mean @ self._weights)

    def log_evidence(self) -> float:
        """Return ln p(y, hyper-parameters), up to a constant that is the same for every prior mean.

        This is the maximum of the fit (the negative of `NegativeLogPosterior`); it makes priors comparable.
        """
        value = 0.5 * float(self._residual @ self._weights) + float(np.sum(np.log(np.diag(self._factor))))
        medians, stds = _log_priors(len(self.parameters.lengths) + 2)
        distance = (self.parameters.to_logs() - medians) / stds
        return -value - 0.5 * float(distance @ distance)

    def predict(self, points: Points) -> tuple[Array, Array]:
        """Return mean and standard deviation of the noise-free value at m points, shape (m,) each."""
        with ONE_BLAS_THREAD.held():
            mean, reduced = self._mean_and_reduction(points)
        variance = self._prior_variance(points) - np.sum(reduced**2, axis=0)
        return mean, np.sqrt(np.maximum(variance, 0.0))

    def covariance(self, points: Points) -> Array:
        """Return the covariances of the noise-free values at m points, shape (m, m)."""
        with ONE_BLAS_THREAD.held():
            _, reduced = self._mean_and_reduction(points)
            return self._posterior_covariance(points, reduced)

    def joint(self, measured: Points, candidates: Points) -> JointPosterior:
        """Return the joint posterior of measured configs and candidates."""
        with ONE_BLAS_THREAD.held():
            mean_measured, reduced = self._mean_and_reduction(measured)
            mean, reduced_candidates = self._mean_and_reduction(candidates)
            return JointPosterior(
                mean_measured,
                mean,
                self._posterior_covariance(measured, reduced),
                self._covariance(measured, candidates) - reduced.T @ reduced_candidates,
                self._prior_variance(candidates) - np.sum(reduced_candidates**2, axis=0),
            )

    def expected_improvement(self, measured: Points, candidates: Points, normals: Array) -> Array:
        """Return the noisy expected improvement of candidates; see `noisy_expected_improvement`."""
        with ONE_BLAS_THREAD.held():
            return noisy_expected_improvement(self.joint(measured, candidates), normals)

    def lowest_means_after(self, measured: Points, fresh: Points) -> tuple[Array, float]:
        """Return the expected lowest posterior mean after one more sample of a config (knowledge gradient).

        Args:
            measured: The n measured configs, which may be picked.
            fresh: One unmeasured config.

        Returns:
            Expected lowest means after one more sample of each measured config, shape (n,), and after the first sample
            of the fresh config.
        """
        posterior = self.joint(measured, fresh)
        variances = np.maximum(np.diag(posterior.within), 0.0)
        again = expected_lowest_mean(posterior.measured, posterior.within, variances, self._sample_variance)
        means = np.append(posterior.measured, posterior.candidates)
        shared = np.append(posterior.between, posterior.variances)[None, :]
        (first,) = expected_lowest_mean(means, shared, posterior.variances, self._sample_variance)
        return again, float(first)

    def _mean_and_reduction(self, points: Points) -> tuple[Array, Array]:
        cross = self._covariance(self._points, points)
        mean: Array = self._level + points.prior_mean + cross.T @ self._weights
        reduced: Array = solve_triangular(self._factor, cross, lower=True)
        return mean, reduced

    def _covariance(self, points: Points, others: Points) -> Array:
        squares = squared_differences(points.x, others.x)
        covariance: Array = self.parameters.amplitude**2 * correlations(squares, self.parameters.lengths)
        covariance += _linear_covariance(points, others)
        return covariance

    def _posterior_covariance(self, points: Points, reduced: Array) -> Array:
        covariance: Array = self._covariance(points, points) - reduced.T @ reduced
        return covariance

    def _prior_variance(self, points: Points) -> Array:
        unknown = (PRIOR_FACTOR_STD * points.prior_mean) ** 2 + np.sum(points.prior_jacobian**2, axis=1)
        variance: Array = self.parameters.amplitude**2 + CONSTANT_STD**2 + unknown
        return variance


def fitted_process(observed: Observations) -> GaussianProcess:
    """Return the process with the most probable hyper-parameters, given at least one observation.

    The fit starts at the medians of the hyper-parameters' priors, and at the noise that repeated samples show: a rugged
    space has a second mode, where the noise explains all.
    """
    with ONE_BLAS_THREAD.held():
        start, _ = _log_priors(observed.points.x.shape[1] + 2)
        start[-1] = math.log(_repeated_noise(observed))
        posterior = NegativeLogPosterior(observed)
        bounds = [(np.log(prior.low), np.log(prior.high)) for prior in _priors(len(start))]
        options = {"ftol": TOLERANCE}
        fit = minimize(posterior, start, method="L-BFGS-B", jac=True, bounds=bounds, options=options)
        return GaussianProcess(observed, Hyperparameters.from_logs(fit.x))


def most_probable_process(alternatives: Sequence[Observations]) -> tuple[int, GaussianProcess]:
    """Return the alternative with the greatest evidence, the first of equals, and its fitted process.

    Args:
        alternatives: The same observations, at least one, under different prior means.

    Returns:
        Index of the alternative, and its process.
    """
    processes = [fitted_process(observed) for observed in alternatives]
    best = int(np.argmax([process.log_evidence() for process in processes]))
    return best, processes[best]


class NegativeLogPosterior:
    """Objective of the fit: negative log posterior of theta = ln(lengths, amplitude, noise), up to a constant."""

    def __init__(self, observed: Observations) -> None:
        """Compute the terms that do not depend on the hyper-parameters."""
        points = observed.points
        self._squares = squared_differences(points.x, points.x)
        self._rows = self._squares.reshape(len(self._squares), len(points.x) ** 2)
        self._fixed = _linear_covariance(points, points)
        self._fixed += np.diag(observed.variance + JITTER)
        _, self._residual = _level_and_residual(observed)
        self._medians, self._stds = _log_priors(len(self._squares) + 2)

    def __call__(self, theta: Array) -> tuple[float, Array]:
        """Return the value, and the gradient, shape (d + 2,).

        Raises:
            LinAlgError: If the covariance is not positive definite in floating point.
        """
        parameters = Hyperparameters.from_logs(theta)
        shape, slopes = correlations_and_slopes(self._squares, parameters.lengths)
        covariance = parameters.amplitude**2 * shape + self._fixed
        covariance.flat[:: len(covariance) + 1] += parameters.noise**2
        logs, inverse = _log_diagonal_and_inverse(covariance)
        weights = inverse @ self._residual
        value = 0.5 * float(self._residual @ weights) + logs
        inner = inverse - np.outer(weights, weights)
        gradient = np.empty_like(theta)
        by_length = self._rows @ (slopes * inner).ravel()
        gradient[:-2] = 0.5 * parameters.amplitude**2 / parameters.lengths**2 * by_length
        gradient[-2] = parameters.amplitude**2 * float(np.vdot(inner, shape))
        gradient[-1] = parameters.noise**2 * float(np.trace(inner))
        distance = (theta - self._medians) / self._stds
        return value + 0.5 * float(distance @ distance), gradient + distance / self._stds


def _repeated_noise(observed: Observations) -> float:
    """Return the noise between samples of one config beyond their own variances; the prior's median without repeats."""
    _, place, counts = np.unique(observed.points.x, axis=0, return_inverse=True, return_counts=True)
    freedom = len(place) - len(counts)
    if not freedom:
        return NOISE.median
    means = np.bincount(place, observed.y) / counts
    squares = float(np.sum((observed.y - means[place]) ** 2))
    explained = float(np.mean(observed.variance[counts[place] > 1]))
    return min(max(math.sqrt(max(squares / freedom - explained, 0.0)), NOISE.low), NOISE.high)


def _log_diagonal_and_inverse(covariance: Array) -> tuple[float, Array]:
    """Return the sum of the logarithms of the Cholesky factor's diagonal, and the inverse.

    Calls LAPACK directly, without scipy's checks of the arguments.
    """
    factor, info = dpotrf(covariance, lower=True)
    if info:
        raise LinAlgError(f"the covariance is not positive definite: LAPACK's dpotrf returned {info}")
    lower, _ = dpotri(factor, lower=True)
    inverse: Array = lower + np.tril(lower, -1).T
    return float(np.log(factor.diagonal()).sum()), inverse


def _level_and_residual(observed: Observations) -> tuple[float, Array]:
    """Return the median of y minus the prior mean, and the residual of y after both are subtracted."""
    deviation = observed.y - observed.points.prior_mean
    level = float(np.median(deviation))
    return level, deviation - level


def _linear_covariance(points: Points, others: Points) -> Array:
    """Return the covariance due to the unknown constant, and to the factor and the unknowns of the prior mean."""
    covariance: Array = (
        CONSTANT_STD**2
        + PRIOR_FACTOR_STD**2 * np.outer(points.prior_mean, others.prior_mean)
        + points.prior_jacobian @ others.prior_jacobian.T
    )
    return covariance


def _priors(count: int) -> list[LogNormal]:
    return [LENGTH] * (count - 2) + [AMPLITUDE, NOISE]


def _log_priors(count: int) -> tuple[Array, Array]:
    priors = _priors(count)
    return np.log([prior.median for prior in priors]), np.array([prior.log_std for prior in priors])
