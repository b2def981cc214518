# SPDX-License-Identifier: Apache-2.0
"""Tests of the value of information: on posteriors by hand, and on whole runs of the default designer."""

import math

import numpy as np
import pytest

from ringtune.tuner import Config, Phase, RunSettings, Suggestion, default_config, make_designer, search_space
from ringtune.tuner.designers.random import RandomDesigner
from ringtune.tuner.logs.records import SampleRecord
from ringtune.tuner.policy.value import Gain, Posterior
from ringtune.tuner.testing import SyntheticTarget, flat_surface
from tests.unit.tuner.recording import Outcome, samples, tune

CALM, NOISY = 1e-6, 1e-2
BUDGET = 20


def independent(means: list[float], stds: list[float]) -> Posterior:
    """Return a posterior of configs without a common unknown."""
    return Posterior(np.array(means), np.diag(np.array(stds) ** 2))


def expected_improvement(mean: float, std: float) -> float:
    """Return E[max(mean + std z, 0)] of a standard normal z, in closed form."""
    ratio = mean / std
    density = math.exp(-0.5 * ratio**2) / math.sqrt(2 * math.pi)
    return mean * 0.5 * math.erfc(-ratio / math.sqrt(2)) + std * density


def tried(outcome: Outcome) -> int:
    """Return how many configs the search measured."""
    return len({r.trial_id for r in outcome.records if isinstance(r, SampleRecord) and r.phase == Phase.SEARCH})


def test_the_gain_is_that_of_the_lowest_mean_and_as_unsure_as_both() -> None:
    """The suggestion, the last one, is not measured yet: it is no pick."""
    gain = independent([1.0, 0.8, 0.5], [0.03, 0.04, 0.1]).gain()

    assert pytest.approx(Gain(0.2, 0.05)) == gain


def test_the_baseline_gains_nothing_over_itself() -> None:
    """Its gain is surely 0, however little is known of it."""
    assert Gain(0.0, 0.0) == independent([0.5, 0.8, 0.7], [0.3, 0.1, 0.1]).gain()


def test_an_unknown_that_both_share_makes_no_gain_unsure() -> None:
    """A machine that may be slower as a whole is slower with either config."""
    shared = Posterior(np.array([1.0, 0.8, 0.9]), np.full((3, 3), 0.09))

    assert pytest.approx(0.0, abs=1e-6) == shared.gain().std


def test_without_noise_the_value_of_a_sample_is_the_expected_improvement() -> None:
    """The best measured config is known, so that only the suggestion's outcome matters."""
    for mean, std in ((0.8, 0.1), (0.85, 0.05), (0.7, 0.02)):
        value = independent([1.0, 0.8, mean], [0.0, 0.0, std]).value_of_sample(1e-12)

        assert pytest.approx(expected_improvement(0.8 - mean, std), rel=0.06, abs=1e-5) == value


def test_a_surely_worse_suggestion_is_worth_nothing() -> None:
    """Each of its outcomes leaves the pick as it is."""
    assert pytest.approx(0.0, abs=1e-12) == independent([1.0, 0.8, 2.0], [0.02, 0.02, 0.1]).value_of_sample(CALM)


def test_another_sample_of_the_pick_is_worth_nothing() -> None:
    """The same config is picked before and after, whatever the sample is."""
    covariance = np.array([[0.0, 0.0, 0.0], [0.0, 0.01, 0.01], [0.0, 0.01, 0.01]])

    assert pytest.approx(0.0, abs=1e-12) == Posterior(np.array([1.0, 0.6, 0.6]), covariance).value_of_sample(0.01)


def test_a_noisy_sample_is_worth_less() -> None:
    """Noise hides part of the outcome."""
    posterior = independent([1.0, 0.8, 0.8], [0.0, 0.0, 0.02])

    assert 0.0 < posterior.value_of_sample(NOISY) < 0.5 * posterior.value_of_sample(CALM)


def test_a_designer_without_standard_deviations_spends_the_budget() -> None:
    """A standard deviation of zero is no certainty."""

    class Certain(RandomDesigner):
        """Expects the same of everything."""

        def suggest(self) -> Suggestion:
            """Suggest with a score and without a doubt."""
            return Suggestion(super().suggest().config, 1e6, 0.0)

    target = SyntheticTarget(surface=flat_surface)

    assert tried(tune(target, Certain(target.space(), 0), RunSettings(max_samples=BUDGET))) == BUDGET


def test_a_flat_search_ends_early() -> None:
    """Over one knob without effect two thirds of the budget do in most seeds, and the default is kept."""
    counts, seeds = [], 16
    for seed in range(seeds):
        space = search_space({}, default_config(), tuned=("cycle_ms",))
        target = SyntheticTarget(surface=flat_surface, seed=seed, space=space)
        outcome = tune(target, make_designer("gp", space, seed), RunSettings(seed=seed, max_samples=BUDGET))
        counts.append(len(samples(outcome, Phase.SEARCH)))
        assert not outcome.result.adopted

    assert sum(count <= 2 * BUDGET // 3 for count in counts) > seeds // 2, counts


def test_a_search_goes_on_while_there_is_a_gain_to_be_found() -> None:
    """An optimum on a tenth of the axis, 20 % below the rest, is found in most seeds."""

    def narrow(config: Config) -> float:
        off = (math.log2(float(config["cycle_ms"])) - math.log2(8.0)) / 0.7
        return math.log(20.0) - 0.2 * math.exp(-(off**2))

    speedups = []
    for seed in range(8):
        space = search_space({}, default_config(), tuned=("cycle_ms",))
        target = SyntheticTarget(surface=narrow, seed=seed, space=space)
        result = tune(target, make_designer("gp", space, seed), RunSettings(seed=seed, max_samples=BUDGET)).result
        speedups.append(target.true_speedup(result.config))

    assert sum(speedup > 0.15 for speedup in speedups) >= 7, speedups


def test_launches_use_the_budget_until_every_config_was_tried() -> None:
    """A live job on a flat surface ends early."""
    counts = []
    for tuned in ("cycle_ms", "response_cache"):
        space = search_space({}, default_config(), tuned=(tuned,))
        target = SyntheticTarget(surface=flat_surface, space=space)
        settings = RunSettings(max_samples=BUDGET, fixed_windows=True)
        outcome = tune(target, make_designer("gp", space, 0, are_trials_cheap=True), settings)
        counts.append(len(samples(outcome, Phase.SEARCH)))

    assert BUDGET == counts[0]
    assert BUDGET // 2 > counts[1]
