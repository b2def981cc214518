# SPDX-License-Identifier: Apache-2.0
"""Horovod's scheme, as a rival to measure against: restated from its parameter manager, defects included.

An *odometer*: for every combination of the switches, all of them off at first, the joint search of fusion threshold and
cycle time begins anew, without the samples of the other combinations: four fixed points, then seventeen by expected
improvement over a Gaussian process with one length scale for megabytes and milliseconds, inputs as they are, a fixed
noise, and a fit from one start. The best single score decides in the end.

Restated are the search and its model (Horovod 0.28, parameter_manager.cc, bayesian_optimization.cc,
gaussian_process.cc). Not restated are its random seed, which is another in every run, and the gradient at the box's
edge, where its function is infinite: here the box bounds the search. Knobs that Horovod lacks keep their defaults.

| symbol | meaning | shape |
|---|---|---|
| X | megabytes and milliseconds of the combination's samples, as they are | (n, k), k at most 2 |
| y | their scores, standardised once there are three | (n,) |
"""

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ringtune.tuner.designers.base import Prediction, Suggestion
from ringtune.tuner.sample import Trial
from ringtune.tuner.space.config import Config, Value
from ringtune.tuner.space.parameter_types import BooleanParameter, NumberParameter
from ringtune.tuner.space.search_space import SearchSpace

from .best_sample import best_single_samples, best_single_suggestion

Array = NDArray[np.float64]
Switches: TypeAlias = dict[str, Value]

MEGABYTE = 2**20
SAMPLES_PER_COMBINATION = 21
FIXED_POINTS = ((4.0, 5.0), (32.0, 50.0), (16.0, 25.0), (8.0, 10.0))
"""Megabytes and milliseconds."""


class HorovodKnob(NamedTuple):
    """A number of Horovod's joint search.

    Attributes:
        name: Our name of it.
        unit: Size of Horovod's unit in ours.
        low: The search box, in Horovod's unit.
        high: Its other end.
    """

    name: str
    unit: float
    low: float
    high: float


KNOBS = (HorovodKnob("fusion_bytes", MEGABYTE, 0.0, 64.0), HorovodKnob("cycle_ms", 1.0, 1.0, 100.0))


class HorovodDesigner:
    """Horovod's odometer over switches, with its Gaussian process inside."""

    name = "horovod"

    def __init__(self, space: SearchSpace, seed: int) -> None:
        """Start without trials; `seed` decides where expected improvement is searched from."""
        self._space = space
        self._seed = seed
        self._trials: tuple[Trial, ...] = ()
        numbers = {parameter.name: parameter for parameter in space.free if isinstance(parameter, NumberParameter)}
        self._knobs = [(knob, numbers[knob.name]) for knob in KNOBS if knob.name in numbers]
        self._switches = [parameter.name for parameter in space.free if isinstance(parameter, BooleanParameter)]

    def update(self, trials: Sequence[Trial]) -> None:
        """Take in all trials so far."""
        self._trials = tuple(trials)

    def suggest(self) -> Suggestion:
        """Return the odometer's next config; once it is through, the best one."""
        taken = sum(len(trial.samples) for trial in self._trials[1:])
        number, position = divmod(taken, SAMPLES_PER_COMBINATION)
        combinations = self._combinations()
        if number >= len(combinations):
            config = self._best()
        elif position < len(FIXED_POINTS):
            config = self._config(self._fixed_point(position), combinations[number])
        else:
            config = self._by_model(combinations[number], taken)
        return best_single_suggestion(config, self._trials)

    def predict(self, configs: Sequence[Config]) -> Prediction:
        """Return each config's best single sample.

        Raises:
            ValueError: If no valid sample was seen yet.
        """
        return best_single_samples(configs, self._trials)

    def _combinations(self) -> list[Switches]:
        """Return the switches' values in the odometer's order: the first switch turns fastest."""
        turns = product((False, True), repeat=len(self._switches))
        return [dict(zip(self._switches, reversed(values), strict=True)) for values in turns]

    def _best(self) -> Config:
        conclusive = [trial for trial in self._trials if trial.is_conclusive]
        return min(conclusive, key=lambda trial: min(trial.log_step_ms)).config if conclusive else self._space.default()

    def _by_model(self, switches: Switches, taken: int) -> Config:
        # scipy takes half a second to import: only when a designer works, in its own thread.
        from .horovod_model import HorovodModel  # noqa: PLC0415

        x, scores = self._measured(switches)
        box = [(knob.low, knob.high) for knob, _ in self._knobs]
        if x.size == 0:
            return self._config([low for low, _ in box], switches)
        promising = HorovodModel(x, scores).most_promising(box, np.random.default_rng([self._seed, taken]))
        return self._config(promising, switches)

    def _measured(self, switches: Switches) -> tuple[Array, Array]:
        """Return the knobs' values and the scores of the samples under these switches, shapes (n, k) and (n,)."""
        trials = [t for t in self._trials if all(t.config[name] == value for name, value in switches.items())]
        samples = [sample for trial in trials for sample in trial.samples if sample.valid]
        x = [[float(sample.config[knob.name]) / knob.unit for knob, _ in self._knobs] for sample in samples]
        return np.array(x), np.array([sample.score_bytes_per_s for sample in samples])

    def _fixed_point(self, position: int) -> list[float]:
        values = dict(zip((knob.name for knob in KNOBS), FIXED_POINTS[position], strict=True))
        return [values[knob.name] for knob, _ in self._knobs]

    def _config(self, numbers: Sequence[float] | Array, switches: Switches) -> Config:
        """Return the legal config nearest to Horovod's values."""
        pairs = zip(self._knobs, numbers, strict=True)
        values = {knob.name: parameter.nearest(float(number) * knob.unit) for (knob, parameter), number in pairs}
        return self._space.default().replace({**values, **switches})
