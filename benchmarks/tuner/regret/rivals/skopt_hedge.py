# SPDX-License-Identifier: Apache-2.0
"""scikit-optimize with its defaults as a rival: its optimizer over the whole space.

Ten random points come first, then a Gaussian process and `gp_hedge`, which draws among expected improvement,
probability of improvement and a confidence bound. It gets ln(step time in ms). The pick is the best single sample, as
in `Optimizer.get_result`.
"""

import math
from collections.abc import Sequence
from typing import Any

from ringtune.tuner.designers.base import Prediction, Suggestion
from ringtune.tuner.sample import Sample, Trial
from ringtune.tuner.space.config import Config, Value
from ringtune.tuner.space.search_space import SearchSpace

from .best_sample import best_single_samples, best_single_suggestion
from .dimensions import Dimension, Range, config_at, dimensions_of, point_of
from .skopt_optimizer import SkoptOptimizer, Told


class SkoptHedgeDesigner:
    """`skopt.Optimizer` over numbers with their scale, and categories; whether a number is special is one of them."""

    name = "skopt_hedge"

    def __init__(self, space: SearchSpace, seed: int) -> None:
        """Start without trials; `seed` decides every random choice."""
        self._space = space
        self._seed = seed
        self._trials: tuple[Trial, ...] = ()
        self._dimensions = dimensions_of(space)
        self._optimizer = SkoptOptimizer(self._options, self._told)

    def update(self, trials: Sequence[Trial]) -> None:
        """Take in all trials so far."""
        self._trials = tuple(trials)

    def suggest(self) -> Suggestion:
        """Return the optimizer's config after every sample."""
        return best_single_suggestion(self._next(), self._trials)

    def predict(self, configs: Sequence[Config]) -> Prediction:
        """Return each config's best single sample.

        Raises:
            ValueError: If no valid sample was seen yet.
        """
        return best_single_samples(configs, self._trials)

    def _next(self) -> Config:
        if not self._dimensions:
            return self._space.default()
        values = zip(self._dimensions.items(), self._optimizer.ask_after(self._trials), strict=True)
        return config_at(self._space, {name: _plain(dimension, value) for (name, dimension), value in values})

    def _options(self) -> dict[str, Any]:
        dimensions = [_skopt_dimension(dimension) for dimension in self._dimensions.values()]
        return {"dimensions": dimensions, "random_state": self._seed}

    def _told(self, sample: Sample) -> Told:
        point = point_of(self._space, sample.config)
        return [point[name] for name in self._dimensions], math.log(sample.typical_ms)


def _skopt_dimension(dimension: Dimension) -> Any:
    # scikit-learn takes seconds to import: only when a designer works, in its own thread.
    from skopt.space import Categorical, Real  # noqa: PLC0415

    if isinstance(dimension, Range):
        return Real(dimension.low, dimension.high, prior="log-uniform" if dimension.is_log else "uniform")
    return Categorical(dimension)


def _plain(dimension: Dimension, value: Any) -> Value:
    """Return numpy's number as Python's."""
    return float(value) if isinstance(dimension, Range) else next(choice for choice in dimension if choice == value)
