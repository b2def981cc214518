# SPDX-License-Identifier: Apache-2.0
"""Random spaces and histories for designers, and the check that their answers stay legal and finite.

Histories have duplicates, constant and extreme step times, windows without a valid sample, and configs that took a
thousand times as long; spaces have every kind of parameter, one legal config, or no free parameter.
"""

import math
from collections.abc import Callable, Mapping

import numpy as np
import pytest

from ringtune.tuner import Config, Designer, SearchSpace
from ringtune.tuner.designers import JointDesigner
from ringtune.tuner.sample import Phase, Sample, StepTimes, Trial, VoidReason
from ringtune.tuner.space.parameter_types import BooleanParameter, CategoryParameter, NumberParameter, Parameter, Scale

LONG = (pytest.mark.long, pytest.mark.timeout(7200))


def short_and_long(counts: Mapping[str, tuple[int, int]]) -> list[object]:
    """Return pytest's parameters (name, count): each name's short form, and its long one, marked as such."""
    return [
        pytest.param(name, count, marks=LONG if is_long else ())
        for name, forms in counts.items()
        for is_long, count in enumerate(forms)
    ]


def random_parameter(rng: np.random.Generator, name: str) -> Parameter:
    """Return a parameter of a random kind."""
    kind = rng.integers(4)
    if kind == 0:
        return BooleanParameter(name, bool(rng.integers(2)))
    if kind == 1:
        choices = tuple("abcde"[: int(rng.integers(1, 6))])
        return CategoryParameter(name, choices, str(rng.choice(choices)))
    low = float(2.0 ** rng.integers(-4, 4))
    special = (0,) if rng.random() < 0.5 else ()
    scale: Scale = "log2" if kind == 2 else "linear"
    return NumberParameter(name, low, low * float(2.0 ** rng.integers(1, 12)), low, scale=scale, special=special)


def random_space(rng: np.random.Generator) -> SearchSpace:
    """Return a space of up to five parameters, some of them fixed."""
    parameters = [random_parameter(rng, f"p{number}") for number in range(rng.integers(1, 6))]
    free = SearchSpace(parameters, {})
    config = free.random(rng)
    return SearchSpace(parameters, {name: config[name] for name in config if rng.random() < 0.25})


def random_step_ms(rng: np.random.Generator) -> Callable[[], float]:
    """Return the function that draws step times: scattered, all equal, or with outliers of a factor of a thousand."""
    level = float(10.0 ** rng.uniform(-3, 5))
    spread = float(rng.choice([0.0, 0.001, 0.05, 2.0]))
    outliers = float(rng.choice([0.0, 0.2]))
    return lambda: level * math.exp(rng.normal(0.0, spread)) * (1000.0 if rng.random() < outliers else 1.0)


def random_sample(rng: np.random.Generator, trial_id: int, config: Config, step_ms: float) -> Sample:
    """Return a sample that is void now and then."""
    if rng.random() < 0.15:
        empty = StepTimes.of(())
        return Sample(trial_id, config, Phase.SEARCH, trial_id, math.nan, empty, 0, VoidReason.PAUSE)
    times = StepTimes(step_ms, step_ms * float(rng.choice([0.0, 0.01, 0.5])), step_ms)
    return Sample(trial_id, config, Phase.SEARCH, trial_id, 1e9 / step_ms, times, int(rng.integers(1, 50)))


def random_history(rng: np.random.Generator, space: SearchSpace) -> list[Trial]:
    """Return up to fifteen trials of distinct configs, fewer where there are not so many."""
    configs = dict.fromkeys([space.default(), *(space.random(rng) for _ in range(rng.integers(0, 15)))])
    draw = random_step_ms(rng)
    return [
        Trial(i, config, tuple(random_sample(rng, i, config, draw()) for _ in range(rng.integers(1, 4))))
        for i, config in enumerate(configs)
    ]


def check_histories(name: str, make: Callable[[SearchSpace, int], Designer], count: int) -> None:
    """Assert that, after each of `count` random histories, suggestions are legal and all expectations finite.

    Args:
        name: Seeds the histories, together with their number.
        make: Builds the designer for a space and a seed.
        count: Number of histories.
    """
    for number in range(count):
        rng = np.random.default_rng([number, len(name)])
        space = random_space(rng)
        trials = random_history(rng, space)
        designer = make(space, number)

        designer.update(trials)
        suggestion = designer.suggest()

        assert space.contains(suggestion.config), (number, suggestion)
        if suggestion.expected_score is not None:
            assert math.isfinite(suggestion.expected_score), (number, suggestion)
            assert suggestion.expected_std is not None
            assert math.isfinite(suggestion.expected_std), (number, suggestion)
        if any(trial.is_conclusive for trial in trials):
            configs = [trial.config for trial in trials]
            prediction = designer.predict(configs)
            assert np.all(np.isfinite(prediction.mean_log_step_ms)), number
            assert np.all(np.isfinite(prediction.std)), number
            if isinstance(designer, JointDesigner):
                assert np.all(np.isfinite(designer.covariance(configs))), number
