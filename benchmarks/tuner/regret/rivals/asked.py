# SPDX-License-Identifier: Apache-2.0
"""A sampler of another library as a designer: it is asked for a config, and told the sample that it led to.

It sees the space as a grid. A number has its special values and some that are spread evenly on its scale.
"""

import math
from collections.abc import Sequence

import numpy as np

from benchmarks.tuner.measured.bare import MakeSampler
from benchmarks.tuner.measured.knob_grid import KnobGrid
from ringtune.tuner.designers.base import Prediction, Suggestion
from ringtune.tuner.designers.shrinkage import shrunk_means
from ringtune.tuner.sample import Trial
from ringtune.tuner.space.config import Config, Value
from ringtune.tuner.space.parameter_types import NumberParameter, Parameter
from ringtune.tuner.space.search_space import SearchSpace

QUANTILES = 33
"""Places on a number's scale at which its values are taken."""
PLANNED = 50
"""Samples that a sampler may plan for, where its initial design depends on it."""


class AskedDesigner:
    """Asks a sampler; picks by shrunk means, as the designers of Optuna do."""

    name = "asked"

    def __init__(self, make: MakeSampler, space: SearchSpace, seed: int) -> None:
        """Start without trials; `seed` decides every random choice of the sampler."""
        self._space = space
        self._grid = grid_of(space)
        self._sampler = make(self._grid, seed, PLANNED)
        self._trials: tuple[Trial, ...] = ()
        self._asked: Config | None = None
        self._is_new = True

    def update(self, trials: Sequence[Trial]) -> None:
        """Take in all trials so far: the sampler gets the baseline once, and the newest sample of its last config."""
        self._trials = tuple(trials)
        if self._is_new and trials:
            self._asked, self._is_new = trials[0].config, False
        for trial in trials:
            if trial.config == self._asked and trial.log_step_ms:
                self._sampler.tell(self._on_grid(trial.config), math.exp(trial.log_step_ms[-1]))
                self._asked = None
                return

    def suggest(self) -> Suggestion:
        """Return the sampler's config."""
        self._asked = self._space.default().replace(self._sampler.ask())
        return Suggestion(self._asked)

    def predict(self, configs: Sequence[Config]) -> Prediction:
        """Return shrunk means.

        Raises:
            ValueError: If no valid sample was seen yet.
        """
        return shrunk_means(configs, self._trials)

    def _on_grid(self, config: Config) -> Config:
        """Return a config with the nearest values of the grid: a job's own settings may lie between them."""
        return Config({name: nearest(config[name], values) for name, values in self._grid.knobs.items()})


def grid_of(space: SearchSpace) -> KnobGrid:
    """Return a space as a grid: its free parameters, and its default."""
    default = space.default()
    knobs = {parameter.name: _values(parameter, default[parameter.name]) for parameter in space.free}
    ordered = frozenset(parameter.name for parameter in space.free if isinstance(parameter, NumberParameter))
    return KnobGrid(knobs, Config({name: default[name] for name in knobs}), ordered)


def nearest(value: Value, values: Sequence[Value]) -> Value:
    """Return the value itself where it is one of `values`, and the nearest number elsewhere."""
    if value in values:
        return value
    numbers = [other for other in values if isinstance(other, int | float)]
    return min(numbers, key=lambda other: abs(other - float(value)))


def _values(parameter: Parameter, default: Value) -> tuple[Value, ...]:
    """Return a parameter's values, the default among them; a number's special values come before its ascending ones."""
    quantiles = [parameter.at_quantile(float(share)) for share in np.linspace(0.0, 1.0, QUANTILES)]
    values = dict.fromkeys([*quantiles, default])
    if not isinstance(parameter, NumberParameter):
        return tuple(values)
    special = [value for value in values if value in parameter.special]
    return (*special, *sorted((value for value in values if value not in special), key=float))
