# SPDX-License-Identifier: Apache-2.0
"""Tests of the noisy expected improvement and of the change of the pick by one more sample."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import norm

from ringtune.tuner.gp import Observations, Points
from ringtune.tuner.gp.process import GaussianProcess, Hyperparameters, fitted_process
from ringtune.tuner.statistics.knowledge_gradient import expected_lowest_mean

Array = NDArray[np.float64]

RNG = np.random.default_rng(0)
X = RNG.random((9, 2))
POINTS = Points.without_prior(X)
Y = 3.0 + 0.3 * (X[:, 0] - 0.4) ** 2 + 0.1 * X[:, 1]
CANDIDATES = RNG.random((50, 2))


def test_without_noise_it_is_the_expected_improvement() -> None:
    """The best config is certain without noise, so the closed form holds (Jones, Schonlau & Welch 1998, eq. 15)."""
    process = GaussianProcess(Observations(POINTS, Y, np.zeros(9)), Hyperparameters(np.full(2, 0.4), 0.2, 1e-5))
    normals = RNG.standard_normal((400, 9))

    gains = process.expected_improvement(POINTS, Points.without_prior(CANDIDATES), normals)

    posterior = process.joint(POINTS, Points.without_prior(CANDIDATES))
    mean, std = posterior.candidates, np.sqrt(posterior.variances)
    ratio = (Y.min() - mean) / std
    assert np.allclose((Y.min() - mean) * norm.cdf(ratio) + std * norm.pdf(ratio), gains, atol=2e-4)


def test_with_noise_it_is_what_draws_of_everything_together_say() -> None:
    """Against plain draws from the joint posterior of measured configs and candidate."""
    rng = np.random.default_rng(3)
    process = fitted_process(Observations(POINTS, Y + rng.normal(0.0, 0.03, 9), np.full(9, 0.03**2)))
    candidate = np.array([[0.5, 0.05]])
    everything = np.vstack([X, candidate])
    mean, _, covariance, _, _ = process.joint(Points.without_prior(everything), Points.without_prior(candidate))
    draws = rng.multivariate_normal(mean, covariance, 200_000, check_valid="ignore")
    expected = np.maximum(draws[:, :9].min(axis=1) - draws[:, 9], 0.0).mean()

    (gain,) = process.expected_improvement(POINTS, Points.without_prior(candidate), rng.standard_normal((20_000, 9)))

    assert np.isclose(expected, gain, rtol=0.03)


def test_a_measured_config_promises_less_than_an_unknown_one_of_the_same_mean() -> None:
    """A known config has no expected improvement over itself."""
    process = GaussianProcess(Observations(POINTS, Y, np.zeros(9)), Hyperparameters(np.full(2, 0.4), 0.2, 1e-4))
    best = X[[int(np.argmin(Y))]]

    gains = process.expected_improvement(
        POINTS, Points.without_prior(np.vstack([best, best + 0.15])), RNG.standard_normal((200, 9))
    )

    assert gains[0] < 1e-4 < gains[1]


def noisy_process(noise: float) -> tuple[GaussianProcess, Observations]:
    """Return a process that knows its noise, and its observations."""
    y = Y + np.random.default_rng(5).normal(0.0, noise, 9)
    observed = Observations(POINTS, y, np.zeros(9))
    return GaussianProcess(observed, Hyperparameters(np.full(2, 0.4), 0.1, noise)), observed


def refitted_lowest_mean(process: GaussianProcess, observed: Observations, sampled: Array, pickable: Array) -> float:
    """Return the lowest posterior mean of some configs, on average over processes given one more sample of one."""
    (mean,), (std,) = process.predict(Points.without_prior(sampled[None, :]))
    x = Points.without_prior(np.vstack([observed.points.x, sampled]))
    lowest = []
    for normal in ndtri((np.arange(200) + 0.5) / 200):
        y = np.append(observed.y, mean + np.hypot(std, process.parameters.noise) * normal)
        refitted = GaussianProcess(Observations(x, y, np.zeros(len(y))), process.parameters)
        lowest.append(refitted.predict(Points.without_prior(pickable))[0].min())
    return float(np.mean(lowest))


def test_one_more_sample_lowers_the_pick_as_processes_with_it_say() -> None:
    """The pick falls as refitted processes say, whichever measured config the sample is of."""
    process, observed = noisy_process(0.03)
    posterior = process.joint(POINTS, POINTS)
    variances = np.diag(posterior.within)

    lowest = expected_lowest_mean(posterior.measured, posterior.within, variances, process.parameters.noise**2)

    expected = [refitted_lowest_mean(process, observed, config, X) for config in X]
    assert np.allclose(expected, lowest, atol=1e-4)
    assert posterior.measured.min() - min(expected) > 1e-3


@pytest.mark.parametrize(("noise", "is_repeated"), [(0.03, True), (1e-4, False)], ids=["noisy", "exact"])
def test_repeating_a_config_may_bring_more_than_a_fresh_one(noise: float, is_repeated: bool) -> None:
    """Beside one in the worst corner, as processes with a sample more say; not where all is known."""
    process, observed = noisy_process(noise)
    fresh = np.array([1.0, 1.0])
    again = [refitted_lowest_mean(process, observed, config, X) for config in X]
    first = refitted_lowest_mean(process, observed, fresh, np.vstack([X, fresh]))

    found_again, found_first = process.lowest_means_after(POINTS, Points.without_prior(fresh[None, :]))

    assert np.allclose(again, found_again, atol=1e-4)
    assert np.isclose(first, found_first, atol=4e-4)  # its outcomes are far apart, and 32 of them stand for all
    assert is_repeated == (found_again.min() < found_first - 1e-4)
