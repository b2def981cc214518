# SPDX-License-Identifier: Apache-2.0
"""Bagua's scheme as a rival, restated from its autotune service.

It is scikit-optimize's optimizer with its portfolio of acquisition functions, after twenty points of a Halton sequence.
It searches the binary logarithm of the bucket size, 1 KiB to 2 GiB, and a switch for hierarchical reduction. The pick
is the best single score (its bayesian_optimizer.py). Knobs that Bagua lacks keep their defaults.
"""

import math
from collections.abc import Sequence
from typing import Any

from ringtune.tuner.designers.base import Prediction, Suggestion
from ringtune.tuner.sample import Sample, Trial
from ringtune.tuner.space.config import Config
from ringtune.tuner.space.parameter_types import BooleanParameter, NumberParameter
from ringtune.tuner.space.search_space import SearchSpace

from .best_sample import best_single_samples, best_single_suggestion
from .skopt_optimizer import SkoptOptimizer, Told

INITIAL_POINTS = 20
MIN_POWER, MAX_POWER = 10, 31
BUCKET, HIERARCHICAL = "fusion_bytes", "hierarchical_allreduce"


class BaguaDesigner:
    """scikit-optimize as Bagua asks it."""

    name = "bagua"

    def __init__(self, space: SearchSpace, seed: int) -> None:
        """Start without trials; Bagua's own seed is always 0."""
        self._space = space
        self._seed = seed
        self._trials: tuple[Trial, ...] = ()
        free = {parameter.name: parameter for parameter in space.free}
        bucket, hierarchical = free.get(BUCKET), free.get(HIERARCHICAL)
        self._bucket = bucket if isinstance(bucket, NumberParameter) else None
        self._has_switch = isinstance(hierarchical, BooleanParameter)
        self._optimizer = SkoptOptimizer(self._options, self._told)

    def update(self, trials: Sequence[Trial]) -> None:
        """Take in all trials so far."""
        self._trials = tuple(trials)

    def suggest(self) -> Suggestion:
        """Return the optimizer's config after every sample."""
        power, switch = self._optimizer.ask_after(self._trials)
        return best_single_suggestion(self._config(int(power), int(switch)), self._trials)

    def predict(self, configs: Sequence[Config]) -> Prediction:
        """Return each config's best single sample.

        Raises:
            ValueError: If no valid sample was seen yet.
        """
        return best_single_samples(configs, self._trials)

    def _options(self) -> dict[str, Any]:
        return {
            "dimensions": [(MIN_POWER, MAX_POWER), (0, 1)],
            "n_initial_points": INITIAL_POINTS,
            "initial_point_generator": "halton",
            "random_state": self._seed,
        }

    def _told(self, sample: Sample) -> Told:
        """Return the sample's point and, to be minimised, the negative of its gigabytes per second."""
        return self._point(sample.config), -sample.score_bytes_per_s / 1e9

    def _point(self, config: Config) -> list[int]:
        size = max(float(config[BUCKET]) if BUCKET in config else 0.0, 2.0**MIN_POWER)
        return [min(round(math.log2(size)), MAX_POWER), int(bool(config.get(HIERARCHICAL, False)))]

    def _config(self, power: int, switch: int) -> Config:
        """Return the legal config nearest to Bagua's values."""
        values = {} if self._bucket is None else {BUCKET: self._bucket.nearest(2.0**power)}
        switches = {HIERARCHICAL: bool(switch)} if self._has_switch else {}
        return self._space.default().replace({**values, **switches})
