# SPDX-License-Identifier: Apache-2.0
"""Bagua's scheme, as a rival to measure against: restated from its autotune service.

scikit-optimize's optimizer as it comes, with a portfolio of acquisition functions, after twenty points of a Halton
sequence, over the binary logarithm of the bucket size, 1 KiB to 2 GiB, and a switch for hierarchical reduction. What
counts in the end is the best single score (its bayesian_optimizer.py). What Bagua has not keeps its default.
"""

import math
import warnings
from collections.abc import Sequence

from ringtune.tuner.config import Config
from ringtune.tuner.kinds import BooleanParameter, NumberParameter
from ringtune.tuner.sample import Trial
from ringtune.tuner.space import SearchSpace

from .base import Prediction, Suggestion, best_single_samples, best_single_suggestion

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

    def update(self, trials: Sequence[Trial]) -> None:
        """Take in all trials so far."""
        self._trials = tuple(trials)

    def suggest(self) -> Suggestion:
        """Return what the optimizer asks for after having been told every sample."""
        return best_single_suggestion(self._config(*self._asked()), self._trials)

    def predict(self, configs: Sequence[Config]) -> Prediction:
        """Return each config's best single sample.

        Raises:
            ValueError: If no valid sample was seen yet.
        """
        return best_single_samples(configs, self._trials)

    def _asked(self) -> tuple[int, int]:
        # scikit-learn takes seconds to import: only when a designer works, in its own thread.
        from skopt import Optimizer  # noqa: PLC0415
        from threadpoolctl import threadpool_limits  # noqa: PLC0415

        with threadpool_limits(1, user_api="blas"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            optimizer = Optimizer(
                [(MIN_POWER, MAX_POWER), (0, 1)],
                n_initial_points=INITIAL_POINTS,
                initial_point_generator="halton",
                random_state=self._seed,
            )
            samples = [sample for trial in self._trials for sample in trial.samples if sample.valid]
            if samples:
                told = [self._point(sample.config) for sample in samples]
                optimizer.tell(told, [-sample.score_bytes_per_s for sample in samples])
            power, switch = optimizer.ask()
        return int(power), int(switch)

    def _point(self, config: Config) -> list[int]:
        size = max(float(config[BUCKET]) if BUCKET in config else 0.0, 2.0**MIN_POWER)
        return [min(round(math.log2(size)), MAX_POWER), int(bool(config.get(HIERARCHICAL, False)))]

    def _config(self, power: int, switch: int) -> Config:
        """Return the legal config nearest to Bagua's values."""
        values = {} if self._bucket is None else {BUCKET: self._bucket.nearest(2.0**power)}
        switches = {HIERARCHICAL: bool(switch)} if self._has_switch else {}
        return self._space.default().replace({**values, **switches})
