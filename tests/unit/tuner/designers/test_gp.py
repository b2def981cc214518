# SPDX-License-Identifier: Apache-2.0
"""Tests of the tuner's own Gaussian-process designer."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from ringtune.tuner import Config, SearchSpace, default_config, make_designer, search_space
from ringtune.tuner.designers import JointDesigner
from ringtune.tuner.designers.gp import GaussianProcessDesigner
from ringtune.tuner.sample import Trial
from ringtune.tuner.space.parameter_types import CategoryParameter, NumberParameter
from ringtune.tuner.testing import engine_like_surface, failed_trial, measured_trial, poor_baseline

SPACE = search_space({}, default_config())


def noisy_trials(count: int, noise: float) -> list[Trial]:
    """Return the baseline and random configs, each with one sample."""
    rng = np.random.default_rng(4)
    configs = [default_config(), *(SPACE.random(rng) for _ in range(count - 1))]
    step_ms = [math.exp(engine_like_surface(config) + rng.normal(0.0, noise)) for config in configs]
    return [measured_trial(i, config, [step]) for i, (config, step) in enumerate(zip(configs, step_ms, strict=True))]


def test_it_says_what_configs_have_in_common() -> None:
    """The conformance suite asks only designers that do, and the search's end rests on it."""
    designer = GaussianProcessDesigner(SPACE, 0)
    designer.update(noisy_trials(10, 0.01))
    near, far = default_config().replace({"cycle_ms": 1.1}), poor_baseline()

    assert isinstance(designer, JointDesigner)
    covariance = designer.covariance([default_config(), near, far])
    assert covariance[0, 1] > covariance[0, 2]


def test_the_model_orders_what_it_has_not_seen() -> None:
    """Predictions of 200 configs correlate with the truth after 25 noisy samples of others."""
    rng = np.random.default_rng(3)
    unseen = [SPACE.random(rng) for _ in range(200)]
    designer = GaussianProcessDesigner(SPACE, 0)

    designer.update(noisy_trials(25, 0.01))
    predicted = designer.predict(unseen).mean_log_step_ms

    assert np.corrcoef(predicted, [engine_like_surface(config) for config in unseen])[0, 1] > 0.8


def test_after_the_start_suggestions_expect_something_and_are_good() -> None:
    """The next config of a model of 25 samples beats nine in ten random ones."""
    designer = GaussianProcessDesigner(SPACE, 0)
    rng = np.random.default_rng(5)
    random = sorted(engine_like_surface(SPACE.random(rng)) for _ in range(200))

    designer.update(noisy_trials(25, 0.01))
    suggestion = designer.suggest()

    assert suggestion.expected_score is not None
    assert suggestion.expected_std is not None
    assert engine_like_surface(suggestion.config) < random[20]


def test_after_a_failed_config_suggestions_are_still_good() -> None:
    """Beside one that took a hundred times as long, the next config is better than nine in ten random ones."""
    awful = measured_trial(25, poor_baseline(), [4000.0])

    for seed in range(3):
        designer = GaussianProcessDesigner(SPACE, seed)
        designer.update([*noisy_trials(25, 0.01), awful])
        assert true_ranks(designer.suggest().config) < 0.1


@dataclass(frozen=True)
class KnownSurface:
    """A prior that expects the values of a function of the config."""

    surface: Callable[[Config], float]
    name = "known"

    def log_step_ms(self, configs: Sequence[Config], trials: Sequence[Trial]) -> NDArray[np.float64]:
        """Return the expected time, without learning."""
        assert trials[0].trial_id == 0
        return np.array([self.surface(config) for config in configs])


def true_ranks(config: Config) -> float:
    """Return the share of 200 random configs that are better than this one."""
    rng = np.random.default_rng(6)
    return float(np.mean([engine_like_surface(SPACE.random(rng)) < engine_like_surface(config) for _ in range(200)]))


def test_with_a_true_prior_the_first_suggestion_is_good_already() -> None:
    """The first suggestion is among the best of a hundred random ones, although only the baseline was measured."""
    designer = GaussianProcessDesigner(SPACE, 0, [KnownSurface(lambda config: 3.0 + 0.6 * engine_like_surface(config))])

    designer.update(noisy_trials(1, 0.01))

    assert designer.prior is not None
    assert true_ranks(designer.suggest().config) < 0.02


def unrelated(config: Config) -> float:
    """Return times that are unrelated to the truth, and differ as much between configs."""
    return 0.3 * float(np.sin(20.0 * SPACE.encode(config)).sum())


def test_a_false_prior_is_dropped_and_then_does_no_harm() -> None:
    """After ten samples the model is the one without it."""
    plain, misled = (GaussianProcessDesigner(SPACE, 0, priors) for priors in ((), (KnownSurface(unrelated),)))

    for designer in (plain, misled):
        designer.update(noisy_trials(10, 0.01))

    assert misled.prior is None
    assert plain.suggest() == misled.suggest()


def test_what_is_always_wrong_is_as_good_to_know() -> None:
    """The factor of a prior that expects the opposite is found to be negative."""
    designer = GaussianProcessDesigner(SPACE, 0, [KnownSurface(lambda config: -engine_like_surface(config))])

    designer.update(noisy_trials(12, 0.01))

    assert true_ranks(designer.suggest().config) < 0.02


def test_a_prior_tells_good_configs_apart_however_poor_the_baseline_is() -> None:
    """A baseline that is ten times as slow as they are does not set the scale of expectations."""

    def steep(config: Config) -> float:
        return engine_like_surface(config) + (2.3 if config["fusion_bytes"] == 0 else 0.0)

    rng = np.random.default_rng(7)
    unseen = [config for config in (SPACE.random(rng) for _ in range(100)) if config["fusion_bytes"] != 0]
    configs = [poor_baseline(), default_config()]
    designer = GaussianProcessDesigner(SPACE, 0, [KnownSurface(steep)])

    designer.update([measured_trial(i, config, [math.exp(steep(config))]) for i, config in enumerate(configs)])
    predicted = designer.predict(unseen).mean_log_step_ms

    assert np.corrcoef(predicted, [steep(config) for config in unseen])[0, 1] > 0.8


def test_of_two_priors_the_samples_choose() -> None:
    """The better of two priors leads, in either order."""
    true, false = KnownSurface(engine_like_surface), KnownSurface(unrelated)

    for priors in ((true, false), (false, true)):
        designer = GaussianProcessDesigner(SPACE, 0, priors)
        designer.update(noisy_trials(10, 0.01))
        assert designer.prior is true


def test_the_registry_hands_priors_on() -> None:
    """To the designer that has a use for them; the others are made without."""
    prior = KnownSurface(engine_like_surface)

    designer = make_designer("gp", SPACE, 0, [prior])
    designer.update(noisy_trials(5, 0.01))

    assert isinstance(designer, GaussianProcessDesigner)
    assert designer.prior is prior
    assert make_designer("random", SPACE, 0, [prior]).name == "random"


@dataclass(frozen=True)
class Doubtful(KnownSurface):
    """Knows a surface, but for one unknown that acts where the allreduce is hierarchical."""

    def jacobian(self, configs: Sequence[Config], trials: Sequence[Trial]) -> NDArray[np.float64]:
        """Return one with the hierarchical allreduce, else zero."""
        del trials
        return np.array([[float(bool(config["hierarchical_allreduce"]))] for config in configs])


def test_what_depends_on_an_unknown_is_uncertain_until_it_is_measured() -> None:
    """However sure the rest is, and however bad the prior expects it to be; one window there removes the doubt."""
    flat = [trial for trial in noisy_trials(30, 0.0) if not trial.config["hierarchical_allreduce"]]
    on = flat[0].config.replace({"hierarchical_allreduce": True})

    def awful(config: Config) -> float:
        return engine_like_surface(config) + 9.0 * bool(config["hierarchical_allreduce"])

    for surface in (engine_like_surface, awful):
        designer = GaussianProcessDesigner(SPACE, 0, [Doubtful(surface)])
        designer.update(flat)
        assert isinstance(designer.prior, Doubtful)
        before = float(designer.predict([on]).std[0])
        designer.update([*flat, measured_trial(len(flat), on, [math.exp(surface(on))])])

        assert before > 0.9
        assert float(designer.predict([on]).std[0]) < 0.1


def is_asked_again(noise: float, seed: int, count: int = 12, priors: Sequence[KnownSurface] = ()) -> bool:
    """Tell whether the next config was measured already: of one knob, at some places, the baseline four times."""
    space = search_space({}, default_config(), tuned=("cycle_ms",))
    rng = np.random.default_rng(seed)
    configs = [default_config(), *(space.at_quantiles([(i + 0.5) / count]) for i in range(count))]
    trials = []
    for number, config in enumerate(configs):
        drawn = rng.normal(engine_like_surface(config), noise, 1 if number else 4)
        trials.append(measured_trial(number, config, np.exp(drawn).tolist()))
    designer = GaussianProcessDesigner(space, 0, priors)
    designer.update(trials)
    return designer.suggest().config in configs


def test_where_noise_blurs_the_leaders_one_is_measured_again() -> None:
    """In two or more of 24 cases, and in none without noise: there a fresh config always tells more."""
    assert sum(is_asked_again(0.02, seed) for seed in range(24)) >= 2
    assert not any(is_asked_again(0.0, seed) for seed in range(8))


CHOICES = SearchSpace([CategoryParameter("algorithm", ("ring", "tree", "slow"), "ring")], {})


def slow_is_slow(config: Config) -> float:
    """Return ln(step time): two algorithms are alike, and the third takes e times as long."""
    return 3.0 + (config["algorithm"] == "slow")


@pytest.mark.parametrize("asked", ["ring", "tree"])
def test_the_leader_that_is_known_least_is_measured_again_also_if_it_is_the_baseline(asked: str) -> None:
    """One more window of the other leader helps the pick most if the untried config should be far slower."""
    many = [20.0 * math.exp(0.1 * (-1.0) ** number) for number in range(8)]
    trials = [
        measured_trial(number, Config({"algorithm": name}), [20.0] if name == asked else many)
        for number, name in enumerate(("ring", "tree"))
    ]
    designer = GaussianProcessDesigner(CHOICES, 0, [KnownSurface(slow_is_slow)])

    designer.update(trials)

    assert Config({"algorithm": asked}) == designer.suggest().config


def test_what_fails_is_learned_and_not_paid_for_again() -> None:
    """Beyond a border every config fails, and steps are the shorter the nearer to it."""
    knobs = [NumberParameter(name, 0.0, 1.0, 0.5) for name in ("block", "tile", "unroll")]
    space = SearchSpace(knobs, {})
    designer = GaussianProcessDesigner(space, 0, are_trials_cheap=True)
    trials = [measured_trial(0, space.default(), [20.0, 20.0, 20.0])]
    for number in range(1, 15):
        designer.update(trials)
        config = designer.suggest().config
        block, tile = float(config["block"]), float(config["tile"])
        step_ms = 20.0 * math.exp(-block - (tile - 0.3) ** 2)
        trials.append(failed_trial(number, config) if block > 0.6 else measured_trial(number, config, [step_ms]))

    assert sum(trial.has_failed for trial in trials) <= 7
    assert min(time for trial in trials for time in trial.log_step_ms) < math.log(20.0) - 1.0
