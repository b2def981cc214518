# SPDX-License-Identifier: Apache-2.0
"""The random designer: the control for all others. Draws uniform configs and shrinks their means to the pooled mean."""

from collections.abc import Sequence

import numpy as np

from ringtune.tuner.sample import Trial
from ringtune.tuner.space.config import Config
from ringtune.tuner.space.search_space import SearchSpace

from .base import Prediction, Suggestion
from .shrinkage import shrunk_means

DRAWS = 100
"""Largest number of draws for an untried config; then a repetition is accepted (small spaces run out)."""


class RandomDesigner:
    """Draws configs uniformly over the quantiles of the space; learns only each config's mean."""

    name = "random"

    def __init__(self, space: SearchSpace, seed: int) -> None:
        """Start without trials; `seed` determines every draw."""
        self._space = space
        self._seed = seed
        self._trials: tuple[Trial, ...] = ()

    def update(self, trials: Sequence[Trial]) -> None:
        """Replace the data by all trials so far."""
        self._trials = tuple(trials)

    def suggest(self) -> Suggestion:
        """Return a random config, an untried one if possible."""
        tried = {trial.config for trial in self._trials}
        rng = np.random.default_rng([self._seed, len(self._trials), sum(len(t.samples) for t in self._trials)])
        config = self._space.random(rng)
        for _ in range(DRAWS):
            if config not in tried:
                break
            config = self._space.random(rng)
        return Suggestion(config)

    def predict(self, configs: Sequence[Config]) -> Prediction:
        """Return the shrunk means of the configs.

        Raises:
            ValueError: If no valid sample was seen yet.
        """
        return shrunk_means(configs, self._trials)
