# SPDX-License-Identifier: Apache-2.0
"""A Gaussian process over encoded configs, fitted to noisy ln(step time) by its most probable hyper-parameters.

| symbol | meaning | shape |
|---|---|---|
| X | encoded configs of the samples, one per row | (n, d) |
| t | trend: what was expected of each before it was measured, up to a constant | (n,) |
| y | ln(step time) of each, less t and a constant | (n,) |
| v | variance of each that its own steps explain | (n,) |
| s | what windows of one config differ by beyond that, a standard deviation | |
| a | amplitude: by how much configs differ, a standard deviation | |
| h | nugget: standard deviation of a config about what its neighbours predict (`Policy.nugget_std`) | |
| E | 1 where two samples are of the same config, else 0 | (n, n) |
| J | by how much t would be higher if one of k unknowns of the trend were a standard deviation larger | (n, k) |
| S | a^2 M(X, X) + h^2 E + c^2 11' + b^2 tt' + JJ' + diag(v + s^2), the covariance of y; c^2: of a constant | (n, n) |

The trend may be a cost model or an earlier study, right up to a factor at best: y = g t + J u + ..., where g has mean 1
and variance b^2, and u, of mean 0 and variance 1, is what the constants of a model are beside those it took. Both are
integrated out like the constant (Rasmussen & Williams 2006, section 2.7): without u a model would be as sure of configs
that depend on what nothing has told yet, as of those that do not. Whether a trend is used at all is for its evidence to
say (`GaussianProcess.log_evidence`).

The hyper-parameters l, a and s have log-normal priors: ten samples alone could not tell an irrelevant parameter from a
long length scale, nor noise from a short one. The mode is found by L-BFGS with analytic gradients (Rasmussen
& Williams 2006, eq. 5.9).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_solve, cholesky, solve_triangular
from scipy.linalg.lapack import dpotrf, dpotri
from scipy.optimize import minimize

from .acquisition import expected_lowest_mean, noisy_expected_improvement
from .blas import ONE_BLAS_THREAD
from .kernel import correlations, correlations_and_slopes, same_configs, squared_differences
from .values import JointPosterior, Observations, Points

Array = NDArray[np.float64]

CONSTANT_STD = 1.0
"""Of the unknown level of ln(step time) about the samples' median."""
TREND_STD = 0.5
"""Of the factor by which a trend is too small or too large."""
JITTER = 1e-8
TOLERANCE = 1e-7
"""Of what the fit minimises, relative: what is gained below it no evidence tells."""


class LogNormal(NamedTuple):
    """A prior of a positive hyper-parameter, and the bounds within which it is looked for."""

    median: float
    log_std: float
    low: float
    high: float


LENGTH = LogNormal(0.5, 0.8, 0.05, 20.0)
"""In encoded units: the range of a number, or a switch, is 1."""
AMPLITUDE = LogNormal(0.15, 1.0, 0.005, 3.0)
NOISE = LogNormal(0.015, 1.0, 0.0005, 0.5)


@dataclass(frozen=True)
class Hyperparameters:
    """Of the kernel and the noise; see the table above."""

    lengths: Array
    amplitude: float
    noise: float

    @classmethod
    def from_logs(cls, theta: Array) -> "Hyperparameters":
        """Return them from their logarithms: lengths, amplitude, noise; shape (d + 2,)."""
        values = np.exp(theta)
        return cls(values[:-2], float(values[-2]), float(values[-1]))

    def to_logs(self) -> Array:
        """Return their logarithms, as `from_logs` takes them."""
        logs: Array = np.log(np.array([*self.lengths, self.amplitude, self.noise]))
        return logs


class GaussianProcess:
    """The process given its observations and hyper-parameters."""

    def __init__(self, observed: Observations, parameters: Hyperparameters) -> None:
        """Factorise the covariance; O(n^3)."""
        self.parameters = parameters
        self._points = observed.points
        self._nugget_variance = observed.nugget_std**2
        self._sample_variance = float(np.median(observed.variance)) + parameters.noise**2
        self._level, self._residual = _level_and_residual(observed)
        covariance = self._covariance(observed.points, observed.points)
        covariance += np.diag(observed.variance + parameters.noise**2 + JITTER)
        self._factor: Array = cholesky(covariance, lower=True)
        self._weights: Array = cho_solve((self._factor, True), self._residual)

    @property
    def trend_factor(self) -> float:
        """The posterior mean of the factor g of the trend; 1 where the trend is flat."""
        return 1.0 + TREND_STD**2 * float(self._points.trend @ self._weights)

    def log_evidence(self) -> float:
        """Return ln p(y, hyper-parameters), up to a constant that does not depend on the trend.

        It is what the fit maximises (the negative of `NegativeLogPosterior`), so that trends can be compared by it.
        """
        value = 0.5 * float(self._residual @ self._weights) + float(np.sum(np.log(np.diag(self._factor))))
        medians, stds = _log_priors(len(self.parameters.lengths) + 2)
        distance = (self.parameters.to_logs() - medians) / stds
        return -value - 0.5 * float(distance @ distance)

    def predict(self, points: Points) -> tuple[Array, Array]:
        """Return mean and standard deviation of the noise-free value at m points, shape (m,) each.

        The nugget of an unmeasured config is left out: a search cannot aim at it, and it would keep the expected
        improvement above zero for ever.
        """
        with ONE_BLAS_THREAD.held():
            mean, reduced = self._mean_and_reduction(points)
        variance = self._prior_variance(points) - np.sum(reduced**2, axis=0) - self._unmeasured_nugget(points)
        return mean, np.sqrt(np.maximum(variance, 0.0))

    def covariance(self, points: Points) -> Array:
        """Return the covariances of the noise-free values at m points, shape (m, m); the nugget as of `predict`."""
        with ONE_BLAS_THREAD.held():
            _, reduced = self._mean_and_reduction(points)
            return self._posterior_covariance(points, reduced) - np.diag(self._unmeasured_nugget(points))

    def joint(self, measured: Points, candidates: Points) -> JointPosterior:
        """Return the joint posterior of measured configs and of candidates, nuggets included."""
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
        """Return how low the lowest posterior mean should be once one config has a sample more.

        Args:
            measured: Configs that may be picked, n of them.
            fresh: One that was not measured.

        Returns:
            After one more sample of each measured config, shape (n,), and after the first of the fresh one.
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
        mean: Array = self._level + points.trend + cross.T @ self._weights
        reduced: Array = solve_triangular(self._factor, cross, lower=True)
        return mean, reduced

    def _covariance(self, points: Points, others: Points) -> Array:
        squares = squared_differences(points.x, others.x)
        covariance: Array = self.parameters.amplitude**2 * correlations(squares, self.parameters.lengths)
        covariance += self._nugget_variance * same_configs(squares) + _linear_covariance(points, others)
        return covariance

    def _posterior_covariance(self, points: Points, reduced: Array) -> Array:
        covariance: Array = self._covariance(points, points) - reduced.T @ reduced
        return covariance

    def _prior_variance(self, points: Points) -> Array:
        unknown = (TREND_STD * points.trend) ** 2 + np.sum(points.directions**2, axis=1)
        variance: Array = self.parameters.amplitude**2 + self._nugget_variance + CONSTANT_STD**2 + unknown
        return variance

    def _unmeasured_nugget(self, points: Points) -> Array:
        """Return the nugget's variance where a config was not measured, else 0, shape (m,)."""
        is_measured = same_configs(squared_differences(points.x, self._points.x)).any(axis=1)
        return np.where(is_measured, 0.0, self._nugget_variance)


def fitted_process(observed: Observations) -> GaussianProcess:
    """Return the process with the most probable hyper-parameters, from one observation on.

    The fit starts at the medians of the priors; random restarts find the same mode.
    """
    with ONE_BLAS_THREAD.held():
        medians, _ = _log_priors(observed.points.x.shape[1] + 2)
        posterior = NegativeLogPosterior(observed)
        bounds = [(np.log(prior.low), np.log(prior.high)) for prior in _priors(len(medians))]
        options = {"ftol": TOLERANCE}
        fit = minimize(posterior, medians, method="L-BFGS-B", jac=True, bounds=bounds, options=options)
        return GaussianProcess(observed, Hyperparameters.from_logs(fit.x))


def most_probable_process(alternatives: Sequence[Observations]) -> tuple[int, GaussianProcess]:
    """Return the trend with the greatest evidence, and the process with it; the first of equal ones.

    Args:
        alternatives: The same observations, at least one, under different trends.

    Returns:
        The index of the alternative, and its process.
    """
    processes = [fitted_process(observed) for observed in alternatives]
    best = int(np.argmax([process.log_evidence() for process in processes]))
    return best, processes[best]


class NegativeLogPosterior:
    """What the fit minimises, up to a constant: of theta, the logarithms of lengths, amplitude and noise."""

    def __init__(self, observed: Observations) -> None:
        """Prepare what does not depend on the hyper-parameters."""
        points = observed.points
        self._squares = squared_differences(points.x, points.x)
        self._rows = self._squares.reshape(len(self._squares), len(points.x) ** 2)
        self._fixed = _linear_covariance(points, points) + observed.nugget_std**2 * same_configs(self._squares)
        self._fixed += np.diag(observed.variance + JITTER)
        _, self._residual = _level_and_residual(observed)
        self._medians, self._stds = _log_priors(len(self._squares) + 2)

    def __call__(self, theta: Array) -> tuple[float, Array]:
        """Return the value, and the gradient, shape (d + 2,).

        Raises:
            LinAlgError: If the covariance is no such, to the computer's precision.
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


def _log_diagonal_and_inverse(covariance: Array) -> tuple[float, Array]:
    """Return the sum of the logarithms of the Cholesky factor's diagonal, and the inverse; LAPACK's own, unchecked."""
    factor, info = dpotrf(covariance, lower=True)
    if info:
        raise LinAlgError(f"the covariance is not positive definite, LAPACK's dpotrf returned {info}")
    lower, _ = dpotri(factor, lower=True)
    inverse: Array = lower + np.tril(lower, -1).T
    return float(np.log(factor.diagonal()).sum()), inverse


def _level_and_residual(observed: Observations) -> tuple[float, Array]:
    """Return the constant that is taken from y, and what is left of y without it and without the trend."""
    untrended = observed.y - observed.points.trend
    level = float(np.median(untrended))
    return level, untrended - level


def _linear_covariance(points: Points, others: Points) -> Array:
    """Return the covariance that comes from the unknown constant and the unknown factor of the trend."""
    covariance: Array = (
        CONSTANT_STD**2 + TREND_STD**2 * np.outer(points.trend, others.trend) + points.directions @ others.directions.T
    )
    return covariance


def _priors(count: int) -> list[LogNormal]:
    return [LENGTH] * (count - 2) + [AMPLITUDE, NOISE]


def _log_priors(count: int) -> tuple[Array, Array]:
    priors = _priors(count)
    return np.log([prior.median for prior in priors]), np.array([prior.log_std for prior in priors])
