# SPDX-License-Identifier: Apache-2.0
"""Grid designer: a patient manual search, as a control for designers that learn.

First come the numbers, a few values each from the middle of their ranges outwards, with switches and categories at
their defaults; then the same with one switch or category changed; then random configs.
"""

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from ringtune.tuner.designers.base import Prediction, Suggestion
from ringtune.tuner.designers.shrinkage import shrunk_means
from ringtune.tuner.sample import Trial
from ringtune.tuner.space.config import Config
from ringtune.tuner.space.parameter_types import NumberParameter, Parameter
from ringtune.tuner.space.search_space import SearchSpace

SHARES = (0.5, 0.3, 0.7, 0.1)
"""Shares of a number's range on its scale, in the order in which they are tried."""
GRID_NUMBERS = 2
"""Numbers that are combined; the others keep their defaults, as a person's would."""


class GridDesigner:
    """Tries a grid in a fixed order; learns each config's own mean alone."""

    name = "grid"

    def __init__(self, space: SearchSpace, seed: int) -> None:
        """Start without trials; `seed` decides the configs that come when the grid is used up."""
        self._space = space
        self._seed = seed
        self._trials: tuple[Trial, ...] = ()

    def update(self, trials: Sequence[Trial]) -> None:
        """Take in all trials so far."""
        self._trials = tuple(trials)

    def suggest(self) -> Suggestion:
        """Return the grid's next config that was not tried."""
        tried = {trial.config for trial in self._trials}
        rng = np.random.default_rng([self._seed, len(self._trials)])
        return Suggestion(next((config for config in self._grid() if config not in tried), self._space.random(rng)))

    def predict(self, configs: Sequence[Config]) -> Prediction:
        """Return shrunk means.

        Raises:
            ValueError: If no valid sample was seen yet.
        """
        return shrunk_means(configs, self._trials)

    def _grid(self) -> Iterator[Config]:
        numbers = [parameter for parameter in self._space.free if isinstance(parameter, NumberParameter)][:GRID_NUMBERS]
        others = [parameter for parameter in self._space.free if not isinstance(parameter, NumberParameter)]
        changes = [{}, *({parameter.name: value} for parameter in others for value in alternatives(parameter))]
        points = sorted(product(SHARES, repeat=len(numbers)), key=_distance_from_the_middle)
        for change, shares in product(changes, points):
            pairs = zip(numbers, shares, strict=True)
            values = {p.name: p.decode([*(0.0 for _ in p.special), share]) for p, share in pairs}
            yield self._space.default().replace({**values, **change})


def alternatives(parameter: Parameter) -> list[str | bool | int | float]:
    """Return a switch's or a category's values that are not the default."""
    values = dict.fromkeys(parameter.at_quantile(float(share)) for share in np.linspace(0.0, 1.0, 101))
    return [value for value in values if value != parameter.default]


def _distance_from_the_middle(shares: tuple[float, ...]) -> float:
    return sum(abs(share - SHARES[0]) for share in shares)
