# SPDX-License-Identifier: Apache-2.0
"""Tests of the noisy expected improvement."""

import numpy as np
from scipy.stats import norm

from ringtune.tuner.gp import Observations, Points
from ringtune.tuner.gp.process import GaussianProcess, Hyperparameters, fitted_process

RNG = np.random.default_rng(0)
X = RNG.random((9, 2))
POINTS = Points.without_trend(X)
Y = 3.0 + 0.3 * (X[:, 0] - 0.4) ** 2 + 0.1 * X[:, 1]
CANDIDATES = RNG.random((50, 2))


def test_without_noise_it_is_the_expected_improvement() -> None:
    """Then there is no doubt about the best, and the closed form holds (Jones, Schonlau & Welch 1998, eq. 15)."""
    process = GaussianProcess(Observations(POINTS, Y, np.zeros(9)), Hyperparameters(np.full(2, 0.4), 0.2, 1e-5))
    normals = RNG.standard_normal((400, 9))

    gains = process.expected_improvement(POINTS, Points.without_trend(CANDIDATES), normals, 0.001)

    mean, std = process.predict(Points.without_trend(CANDIDATES))
    ratio = (Y.min() - 0.001 - mean) / std
    assert np.allclose((Y.min() - 0.001 - mean) * norm.cdf(ratio) + std * norm.pdf(ratio), gains, atol=2e-4)


def test_with_noise_it_is_what_draws_of_everything_together_say() -> None:
    """Against plain draws from the joint posterior of measured configs and candidate."""
    rng = np.random.default_rng(3)
    process = fitted_process(Observations(POINTS, Y + rng.normal(0.0, 0.03, 9), np.full(9, 0.03**2)), 0)
    candidate = np.array([[0.5, 0.05]])
    everything = np.vstack([X, candidate])
    mean, _, covariance, _, _ = process.joint(Points.without_trend(everything), Points.without_trend(candidate))
    draws = rng.multivariate_normal(mean, covariance, 200_000, check_valid="ignore")
    expected = np.maximum(draws[:, :9].min(axis=1) - draws[:, 9], 0.0).mean()

    (gain,) = process.expected_improvement(
        POINTS, Points.without_trend(candidate), rng.standard_normal((20_000, 9)), 0.0
    )

    assert np.isclose(expected, gain, rtol=0.03)


def test_a_measured_config_promises_less_than_an_unknown_one_of_the_same_mean() -> None:
    """What is known cannot improve on itself."""
    process = GaussianProcess(Observations(POINTS, Y, np.zeros(9)), Hyperparameters(np.full(2, 0.4), 0.2, 1e-4))
    best = X[[int(np.argmin(Y))]]

    gains = process.expected_improvement(
        POINTS, Points.without_trend(np.vstack([best, best + 0.15])), RNG.standard_normal((200, 9)), 0.0
    )

    assert gains[0] < 1e-4 < gains[1]
