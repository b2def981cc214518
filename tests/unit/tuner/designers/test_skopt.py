# SPDX-License-Identifier: Apache-2.0
"""Tests of the Gaussian-process designer."""

import math

import numpy as np
import pytest

from ringtune.tuner import default_config, search_space
from ringtune.tuner.designers.skopt import INITIAL_TRIALS, SkoptDesigner
from ringtune.tuner.testing import engine_like_surface, failed_trial, measured_trial, poor_baseline

SPACE = search_space({}, default_config())


def test_from_a_poor_baseline_the_built_in_defaults_come_first() -> None:
    """The sensible centre is the first guess."""
    designer = SkoptDesigner(SPACE, 0)

    designer.update([measured_trial(0, poor_baseline(), [40.0] * 3)])

    assert default_config() == designer.suggest().config


def test_the_model_orders_what_it_has_not_seen() -> None:
    """Predictions of 200 configs correlate with the truth after 25 noisy samples of others."""
    rng = np.random.default_rng(3)
    configs = [SPACE.random(rng) for _ in range(25)]
    noisy = [math.exp(engine_like_surface(config) + rng.normal(0.0, 0.01)) for config in configs]
    trials = [measured_trial(i, config, [step]) for i, (config, step) in enumerate(zip(configs, noisy, strict=True))]
    unseen = [SPACE.random(rng) for _ in range(200)]
    designer = SkoptDesigner(SPACE, 0)

    designer.update(trials)
    predicted = designer.predict(unseen).mean_log_step_ms

    assert np.corrcoef(predicted, [engine_like_surface(config) for config in unseen])[0, 1] > 0.8


def test_after_the_start_suggestions_expect_something() -> None:
    """A suggestion of the model carries its expected score and a standard deviation."""
    rng = np.random.default_rng(4)
    configs = [default_config(), *(SPACE.random(rng) for _ in range(INITIAL_TRIALS))]
    trials = [measured_trial(i, c, [math.exp(engine_like_surface(c))]) for i, c in enumerate(configs)]
    designer = SkoptDesigner(SPACE, 0)

    designer.update(trials)
    suggestion = designer.suggest()

    assert suggestion.expected_score is not None
    assert suggestion.expected_std is not None
    assert suggestion.expected_score > 0
    assert suggestion.config not in configs


def test_one_terrible_config_does_not_blur_the_others() -> None:
    """A step time of an hour leaves the model's means of the good ones apart."""
    rng = np.random.default_rng(5)
    configs = [default_config(), *(SPACE.random(rng) for _ in range(8))]
    trials = [measured_trial(i, c, [math.exp(engine_like_surface(c))]) for i, c in enumerate(configs)]
    designer = SkoptDesigner(SPACE, 0)

    designer.update([*trials, measured_trial(9, poor_baseline(), [3.6e6])])
    means = designer.predict(configs).mean_log_step_ms

    assert [engine_like_surface(config) for config in configs] == pytest.approx(list(means), abs=0.1)


def test_a_config_that_failed_is_expected_to_be_as_slow_as_the_slowest() -> None:
    """Its neighbours are avoided; without any time there is none to give it."""
    slow, broken = (default_config().replace({"cycle_ms": cycle_ms}) for cycle_ms in (2.0, 30.0))
    trials = [measured_trial(0, default_config(), [20.0, 20.1]), measured_trial(1, slow, [40.0, 40.2])]
    designer = SkoptDesigner(SPACE, 3)

    designer.update([*trials, failed_trial(2, broken)])
    predicted = designer.predict([broken]).mean_log_step_ms[0]
    designer.update([failed_trial(0, broken)])

    assert abs(math.log(40.0) - predicted) < 0.1
    assert designer.suggest().expected_score is None
