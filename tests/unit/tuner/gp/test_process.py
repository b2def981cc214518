# SPDX-License-Identifier: Apache-2.0
"""Tests of the Gaussian process: its gradient, its posterior, and its treatment of noise."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import approx_fprime, minimize

from ringtune.tuner.gp import Observations, Points
from ringtune.tuner.gp.blas import ONE_BLAS_THREAD
from ringtune.tuner.gp.kernel import correlations, squared_differences
from ringtune.tuner.gp.process import (
    AMPLITUDE,
    LENGTH,
    NOISE,
    GaussianProcess,
    Hyperparameters,
    NegativeLogPosterior,
    fitted_process,
    most_probable_process,
)

Array = NDArray[np.float64]


def slope_and_bump(x: Array) -> Array:
    """Return a function of the first two coordinates; a third one is irrelevant."""
    values: Array = 3.0 + 0.3 * x[:, 0] + 0.2 * np.sin(6.0 * x[:, 1])
    return values


def observed(
    count: int, noise: float, seed: int = 0, variance: float = 0.0, prior_mean: Callable[[Array], Array] | None = None
) -> Observations:
    """Return noisy values of `slope_and_bump` at random places of three coordinates, given a prior mean."""
    rng = np.random.default_rng(seed)
    x = rng.random((count, 3))
    points = Points.without_prior(x) if prior_mean is None else Points.with_prior(x, prior_mean(x))
    return Observations(points, slope_and_bump(x) + rng.normal(0.0, noise, count), np.full(count, variance))


def without_prior(count: int, seed: int) -> Points:
    """Return random places."""
    return Points.without_prior(np.random.default_rng(seed).random((count, 3)))


def open_ended(x: Array) -> Points:
    """Return places with a prior mean that depends on two unknowns, each of which acts along one of the coordinates."""
    return Points(x, slope_and_bump(x), 0.3 * x[:, :2])


@pytest.mark.parametrize("points_of", [Points.without_prior, open_ended])
@pytest.mark.parametrize("seed", range(4))
def test_the_gradient_is_that_of_the_value(seed: int, points_of: Callable[[Array], Points]) -> None:
    """Against finite differences, at random hyper-parameters."""
    rng = np.random.default_rng(seed)
    data = observed(15, 0.05, seed, variance=1e-4)
    data = Observations(points_of(data.points.x), data.y, data.variance)
    posterior = NegativeLogPosterior(data)
    medians = np.log([LENGTH.median] * 3 + [AMPLITUDE.median, NOISE.median])
    theta = medians + rng.normal(0.0, 0.7, 5)

    _, gradient = posterior(theta)

    numerical = approx_fprime(theta, lambda t: posterior(t)[0], 1e-6)
    assert np.allclose(numerical, gradient, rtol=1e-3, atol=1e-3)


def test_what_the_fit_minimises_is_the_evidence_of_the_process() -> None:
    """The evidence has the process's covariance, for configs with several samples too."""
    data = observed(8, 0.05, variance=1e-4)
    twice = Points.without_prior(np.vstack([data.points.x, data.points.x]))
    data = Observations(twice, np.append(data.y, data.y + 0.01), np.tile(data.variance, 2))
    posterior = NegativeLogPosterior(data)
    parameters = Hyperparameters(np.full(3, 0.7), 0.2, 0.002)

    value, _ = posterior(parameters.to_logs())

    assert np.isclose(-value, GaussianProcess(data, parameters).log_evidence())


def test_the_kernel_is_one_where_two_configs_are_the_same_and_falls_with_distance() -> None:
    """The kernel falls with distance, and a long length scale makes a coordinate irrelevant."""
    x = np.array([[0.0, 0.0], [0.0, 1.0], [0.5, 0.0], [1.0, 0.0]])

    kernel = correlations(squared_differences(x, x), np.array([0.5, 1e6]))

    assert np.allclose(1.0, np.diag(kernel))
    assert np.allclose(kernel, kernel.T)
    assert math.isclose(1.0, kernel[0, 1], rel_tol=1e-6)
    assert kernel[0, 2] > kernel[0, 3] > 0


def test_without_noise_it_goes_through_what_it_has_seen_and_returns_to_the_level_far_away() -> None:
    """The posterior, given its hyper-parameters."""
    data = observed(12, 0.0)
    process = GaussianProcess(data, Hyperparameters(np.full(3, 0.5), 0.3, 1e-4))

    mean, std = process.predict(data.points)
    _, far_std = process.predict(Points.without_prior(np.full((1, 3), 50.0)))

    assert np.allclose(data.y, mean, atol=1e-3)
    assert np.all(std < 0.01)
    assert far_std[0] > 0.3


@pytest.mark.parametrize("points_of", [Points.without_prior, open_ended])
def test_the_joint_posterior_agrees_with_the_one_of_each_config(points_of: Callable[[Array], Points]) -> None:
    """Means, variances, and the covariance between two sets that are the same."""
    data = observed(20, 0.02)
    process = fitted_process(Observations(points_of(data.points.x), data.y, data.variance))
    points = points_of(without_prior(7, seed=5).x)

    mean, std = process.predict(points)
    mean_x, mean_z, within, between, variance = process.joint(points, points)

    assert np.allclose(mean, mean_x)
    assert np.allclose(mean, mean_z)
    assert np.allclose(std**2, variance)
    assert np.allclose(std**2, np.diag(process.covariance(points)))
    assert np.allclose(within, between)
    assert np.allclose(variance, np.diag(within))


def test_it_learns_what_matters_from_thirty_noisy_samples() -> None:
    """The process predicts unseen configs, finds the third coordinate irrelevant, and the noise about right."""
    process = fitted_process(observed(30, 0.02))
    unseen = without_prior(200, seed=9)

    mean, _ = process.predict(unseen)

    assert np.corrcoef(mean, slope_and_bump(unseen.x))[0, 1] > 0.95
    lengths = process.parameters.lengths
    assert lengths[2] > 3 * lengths[1]
    assert 0.01 < process.parameters.noise < 0.04


def test_noise_that_the_steps_explain_is_not_counted_twice() -> None:
    """Samples with a variance of their own leave little noise for the windows."""
    given = fitted_process(observed(40, 0.05, variance=0.05**2))
    found = fitted_process(observed(40, 0.05))

    assert given.parameters.noise < found.parameters.noise / 2


def test_equal_values_are_no_error() -> None:
    """A flat surface: finite, and without a reason to expect a difference."""
    data = Observations(without_prior(8, seed=0), np.full(8, 3.0), np.zeros(8))

    mean, std = fitted_process(data).predict(without_prior(5, seed=1))

    assert np.allclose(3.0, mean, atol=1e-6)
    assert np.all(std < 0.2)


@pytest.mark.parametrize("prior_mean", [None, slope_and_bump])
def test_one_observation_is_enough(prior_mean: Callable[[Array], Array] | None) -> None:
    """At the beginning of a run the mean is that observation plus the prior mean, and doubt grows with distance."""
    x = np.array([[0.0, 0.0, 0.0], [0.2, 0.1, 0.1], [1.0, 1.0, 1.0]])
    expected = np.zeros(3) if prior_mean is None else prior_mean(x) - prior_mean(x[:1])
    data = Observations(Points.with_prior(x[:1], expected[:1]), np.array([2.0]), np.zeros(1))

    process = fitted_process(data)

    mean, std = process.predict(Points.with_prior(x, expected))
    assert np.allclose(2.0 + expected, mean, atol=0.01)
    assert std[0] < std[1] < std[2]
    medians = [LENGTH.median, AMPLITUDE.median]
    assert medians == pytest.approx([process.parameters.lengths[0], process.parameters.amplitude], rel=0.05)


def test_repeats_that_agree_tell_a_rugged_surface_from_noise() -> None:
    """Samples that scatter from config to config without any pattern, and not at all when one is repeated."""
    rng = np.random.default_rng(1)
    x = rng.random((12, 3))
    x[9:] = x[8]
    y = rng.normal(0.0, 0.5, 12)
    y[9:] = y[8]

    process = fitted_process(Observations(Points.without_prior(x), y, np.zeros(12)))

    assert process.parameters.noise < 0.01
    assert np.allclose(process.predict(Points.without_prior(x))[0], y, atol=0.02)


@pytest.mark.parametrize("count", [2, 5, 10, 25])
def test_the_fit_finds_the_mode_that_random_restarts_find(count: int) -> None:
    """L-BFGS from six random starts reaches no value below the one from the medians of the priors."""
    data = observed(count, 0.02, seed=count)
    posterior = NegativeLogPosterior(data)
    rng = np.random.default_rng(count)
    medians = np.log([LENGTH.median] * 3 + [AMPLITUDE.median, NOISE.median])
    bounds = [(np.log(prior.low), np.log(prior.high)) for prior in [LENGTH] * 3 + [AMPLITUDE, NOISE]]
    starts = np.clip(medians + rng.normal(0.0, 1.0, (6, 5)), *np.transpose(bounds))

    with ONE_BLAS_THREAD.held():
        reached = [minimize(posterior, start, method="L-BFGS-B", jac=True, bounds=bounds).fun for start in starts]

    found, _ = posterior(fitted_process(data).parameters.to_logs())
    assert found < min(reached) + 0.01


def test_more_observations_make_a_process_surer() -> None:
    """The doubt and the error fall from five to forty observations, at places that were not measured."""
    unseen = without_prior(200, seed=9)
    errors, doubts = [], []
    for count in (5, 15, 40):
        mean, std = fitted_process(observed(count, 0.01)).predict(unseen)
        errors.append(float(np.sqrt(np.mean((mean - slope_and_bump(unseen.x)) ** 2))))
        doubts.append(float(std.mean()))

    assert errors == sorted(errors, reverse=True)
    assert doubts == sorted(doubts, reverse=True)


def upside_down(x: Array) -> Array:
    """Return the opposite of the true surface."""
    return -slope_and_bump(x)


def too_weak(x: Array) -> Array:
    """Return the truth, but for its level and a factor of two."""
    return 7.0 + 0.5 * slope_and_bump(x)


def test_a_true_prior_makes_five_samples_enough() -> None:
    """Five samples are enough with the true prior mean; without it they say little."""
    alternatives = [observed(5, 0.01, prior_mean=too_weak), observed(5, 0.01)]
    unseen = np.random.default_rng(9).random((200, 3))

    index, process = most_probable_process(alternatives)

    assert index == 0
    mean, _ = process.predict(Points.with_prior(unseen, too_weak(unseen)))
    assert np.corrcoef(mean, slope_and_bump(unseen))[0, 1] > 0.95
    flat_mean, _ = fitted_process(alternatives[1]).predict(Points.without_prior(unseen))
    assert np.corrcoef(flat_mean, slope_and_bump(unseen))[0, 1] < 0.9


def test_the_samples_say_how_strong_the_prior_is() -> None:
    """The prior mean's factor is found to be half of the truth, for a prior mean without a pattern in space."""
    rng = np.random.default_rng(2)
    x, prior_mean = rng.random((25, 3)), rng.normal(0.0, 0.1, 25)
    y = 3.0 + 2.0 * prior_mean + rng.normal(0.0, 0.01, 25)
    expected = (Points.without_prior(x), Points.with_prior(x, prior_mean))
    alternatives = [Observations(points, y, np.zeros(25)) for points in expected]

    index, process = most_probable_process(alternatives)

    assert index == 1
    assert 1.8 < process.prior_factor < 2.1


def test_where_nothing_told_of_an_unknown_the_prior_is_not_believed() -> None:
    """A prediction where the unknown acts is as uncertain as the unknown; one sample makes it known everywhere."""
    x = np.zeros((12, 3))
    x[:, 2] = np.linspace(0.0, 1.0, 12)
    sure, unsure = np.array([[0.0, 0.0, 0.5]]), np.array([[1.0, 0.0, 0.5], [0.0, 0.0, 0.9]])
    small = Hyperparameters(np.full(3, 0.5), 0.01, 0.001)

    def posterior(acting: Array) -> tuple[Array, Array]:
        """Return it at both places, with observations that are all 0.2 where the unknown acts, else 0."""
        data = Observations(Points(x, np.zeros(12), acting[:, None]), 0.2 * acting, np.zeros(12))
        at = Points(np.vstack([sure, unsure]), np.zeros(3), np.array([[0.0], [1.0], [1.0]]))
        return GaussianProcess(data, small).predict(at)

    _, before = posterior(np.zeros(12))
    mean, after = posterior(np.eye(12)[11])

    assert before[0] < 0.02
    assert np.all(before[1:] > 0.9)
    assert mean[1] == pytest.approx(0.2, abs=0.02)
    assert np.all(after[1:] < 0.05)


@pytest.mark.parametrize("seed", range(5))
def test_a_false_prior_is_dropped(seed: int) -> None:
    """Eight samples are enough to say so, whichever it is beside."""
    alternatives = [observed(8, 0.01, seed, prior_mean=prior_mean) for prior_mean in (upside_down, None)]

    assert most_probable_process(alternatives)[0] == 1


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_the_prior_with_the_greatest_evidence_is_chosen_in_any_order(order: tuple[int, int, int]) -> None:
    """The true prior mean wins over the opposite and over none, and its process is the one that is returned."""
    prior_means = (slope_and_bump, upside_down, None)
    alternatives = [observed(12, 0.01, prior_mean=prior_means[index]) for index in order]

    index, process = most_probable_process(alternatives)

    evidence = [fitted_process(each).log_evidence() for each in alternatives]
    assert order[index] == 0
    assert process.log_evidence() == max(evidence) > sorted(evidence)[1]


def test_before_the_samples_differ_the_first_prior_holds() -> None:
    """At a single sample all prior means are zero and have equal evidence."""
    x = np.zeros((1, 3))
    data = [Observations(Points.without_prior(x), np.array([2.0]), np.zeros(1)) for _ in range(3)]

    assert most_probable_process(data)[0] == 0
