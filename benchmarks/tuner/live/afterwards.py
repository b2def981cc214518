# SPDX-License-Identifier: Apache-2.0
"""Measurements in a tuned job once its tuner is through: the gain of a config, and the best one of a long search."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from ringtune.tuner import Config, NumberParameter, Parameter, Phase, SearchSpace, Target
from ringtune.tuner.policy.measuring import Meter, Order
from ringtune.tuner.policy.trials import BASELINE_ID
from ringtune.tuner.statistics.paired_test import LEAST_PAIRS, Pair, speedup_interval

CONFIDENCE = 0.95
WINDOW_S = 0.6
"""Length of a window, within the limits of its steps."""
MOST_STEPS, LEAST_STEPS = 10, 3
NUMBERS, CHOICES = 4, 16
"""Most values of a number and of another knob that the long search tries, evenly spread."""
RANDOM_CONFIGS = 10
BETTER = 0.99
"""Ratio of step times below which a value of a knob is taken into the joined config."""
FINALISTS = 3
FINAL_PAIRS = 3

Singles = Mapping[str, Mapping[Config, float]]
"""Ratios of the configs that differ from the baseline in one knob, by that knob."""


@dataclass(frozen=True)
class Gain:
    """A config's gain over the baseline, by pairs of windows next to each other.

    Attributes:
        config: The config.
        speedup: Fraction by which it is faster.
        low: Lower bound of the speed-up's 95 % interval.
        high: Upper bound.
        baseline_ms: Median step of the baseline.
    """

    config: dict[str, Any]
    speedup: float
    low: float
    high: float
    baseline_ms: float


@dataclass(frozen=True)
class Best:
    """Result of a long search.

    Attributes:
        gain: The best config's gain.
        single_ratios: Step time ÷ the baseline's of one changed knob, by `knob=value`, of one pair of windows each.
    """

    gain: Gain
    single_ratios: dict[str, float]


class Windows:
    """Windows of a live target, under one config after the other."""

    def __init__(self, target: Target) -> None:
        self._meter = Meter(target, lambda _: None)
        self._baseline = target.baseline()
        first_ms = self._step_ms(self._baseline, LEAST_STEPS)
        self._steps = max(LEAST_STEPS, min(MOST_STEPS, round(WINDOW_S * 1e3 / first_ms)))

    def ratio(self, config: Config) -> float:
        """Return a config's step time ÷ the baseline's, of one window each; infinite where one of them is void."""
        pair = self.pair(config, baseline_is_first=True)
        return pair.challenger_ms / pair.baseline_ms if math.isfinite(pair.baseline_ms) else math.inf

    def singles(self, space: SearchSpace) -> Singles:
        """Return the ratios of the baseline's single changes, by knob."""
        changes = {each.name: _single_changes(space, self._baseline, each) for each in space.free}
        return {knob: {config: self.ratio(config) for config in configs} for knob, configs in changes.items()}

    def pair(self, config: Config, *, baseline_is_first: bool) -> Pair:
        """Return the step times of two windows in a row, milliseconds; infinite where a window is void."""
        order = (self._baseline, config) if baseline_is_first else (config, self._baseline)
        times = [self._step_ms(each, self._steps) for each in order]
        return Pair(*(times if baseline_is_first else reversed(times)))

    def gain(self, config: Config, pairs: int) -> Gain:
        """Return a config's gain of so many fresh pairs, those with a void window left out; -1 of too few."""
        measured = [self.pair(config, baseline_is_first=number % 2 == 0) for number in range(pairs)]
        found = [pair for pair in measured if math.isfinite(pair.baseline_ms + pair.challenger_ms)]
        if len(found) < LEAST_PAIRS:
            return Gain(config.to_json(), -1.0, -1.0, -1.0, measured[0].baseline_ms)
        interval = speedup_interval(found, confidence=CONFIDENCE)
        baseline_ms = median(pair.baseline_ms for pair in found)
        return Gain(config.to_json(), interval.speedup, interval.low, interval.high, baseline_ms)

    def leave(self, config: Config) -> None:
        """Let the job go on under a config."""
        self._meter.switch(config)

    def _step_ms(self, config: Config, steps: int) -> float:
        sample = self._meter.measure(Order(config, BASELINE_ID, Phase.ADOPTION, steps))
        return sample.step_times.median if sample.valid else math.inf


def long_search(windows: Windows, space: SearchSpace, baseline: Config, seed: int, pairs: int) -> Best:
    """Return the best config of a search without a budget, and its gain of fresh pairs.

    Every knob is tried at several values alone, the values that gained are joined, and random configs follow; the best
    few meet the baseline again, and the best of these once more.

    Args:
        windows: Windows of the job.
        space: The legal configs.
        baseline: Config that gains are over.
        seed: Decides the random configs.
        pairs: Number of pairs of the final measurement.

    Raises:
        TargetClosed: If the job is over.
    """
    singles = windows.singles(space)
    ratios = {config: ratio for found in singles.values() for config, ratio in found.items()}
    rng = np.random.default_rng(seed)
    for config in (joined(baseline, singles), *(space.random(rng) for _ in range(RANDOM_CONFIGS))):
        if config != baseline and config not in ratios:
            ratios[config] = windows.ratio(config)
    best = max(_best(ratios, FINALISTS), key=lambda config: windows.gain(config, FINAL_PAIRS).speedup)
    named = ((f"{knob}={config[knob]}", ratio) for knob, found in singles.items() for config, ratio in found.items())
    return Best(windows.gain(best, pairs), {name: round(ratio, 4) for name, ratio in named})


def joined(baseline: Config, singles: Singles) -> Config:
    """Return the baseline with the best value of each knob that gained alone."""
    gained = {knob: found for knob, found in singles.items() if min(found.values(), default=1.0) < BETTER}
    return baseline.replace({knob: _best(found)[0][knob] for knob, found in gained.items()})


def _best(ratios: Mapping[Config, float], count: int = 1) -> list[Config]:
    """Return the configs with the lowest ratios, the lowest first."""
    return sorted(ratios, key=ratios.__getitem__)[:count]


def _single_changes(space: SearchSpace, baseline: Config, parameter: Parameter) -> Iterator[Config]:
    """Yield the baseline with other values of one knob: a few of a number, and all choices."""
    places = NUMBERS if isinstance(parameter, NumberParameter) else CHOICES
    for value in dict.fromkeys(parameter.at_quantile((place + 0.5) / places) for place in range(places)):
        config = baseline.replace({parameter.name: value})
        if config != baseline and space.contains(config):
            yield config
