# SPDX-License-Identifier: Apache-2.0
"""The Gaussian-process designer on scikit-optimize: its process, its expected improvement, our candidates.

`skopt.Optimizer` itself would optimise over the box around the encoded space, where a special value is "half chosen",
so the acquisition is taken over legal configs instead: random ones, and neighbours of the best.

| symbol | meaning | shape |
|---|---|---|
| X | encoded configs of the valid samples, one row per sample | (n, d) |
| y | ln(median step time in ms) of each | (n,) |
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ringtune.tuner.sample import Trial
from ringtune.tuner.space.config import Config
from ringtune.tuner.space.search_space import SearchSpace

from .base import Prediction, Suggestion, expected_suggestion
from .candidates import first_points, neighbour

if TYPE_CHECKING:
    from .skopt_model import GaussianProcess

Array = NDArray[np.float64]

INITIAL_TRIALS = 6
"""Configs tried before the model is trusted, the baseline included: about one per coordinate of the engine's space."""
RANDOM_CANDIDATES = 300
NEIGHBOURS_PER_BEST = 50
BEST_COUNT = 3
WORST_OVER_BEST = 1.5
"""y is capped this far above its minimum: how bad a bad config is must not set the scale of the model."""


class SkoptDesigner:
    """A Gaussian process (Matern 5/2, a length scale per coordinate, fitted noise) with expected improvement."""

    name = "skopt"

    def __init__(self, space: SearchSpace, seed: int) -> None:
        """Start without trials; `seed` decides every random choice."""
        self._space = space
        self._seed = seed
        self._trials: tuple[Trial, ...] = ()
        self._model: GaussianProcess | None = None

    def update(self, trials: Sequence[Trial]) -> None:
        """Fit the process to all valid samples of all trials."""
        # scikit-learn takes seconds to import: only when a designer works, in its own thread.
        from .skopt_model import fitted_model  # noqa: PLC0415

        self._trials = tuple(trials)
        pairs = [(trial.config, y) for trial in trials for y in trial.log_step_ms]
        if not pairs:
            self._model = None
            return
        x = self._encode([config for config, _ in pairs])
        y = np.array([value for _, value in pairs])
        self._model = fitted_model(x, np.minimum(y, y.min() + WORST_OVER_BEST), self._seed)

    def suggest(self) -> Suggestion:
        """Return a space-filling config first, then the candidate with the largest expected improvement."""
        if self._model is None or len(self._trials) < INITIAL_TRIALS:
            config = self._initial()
            return Suggestion(config) if self._model is None else self._with_expectation(config)
        candidates = self._candidates()
        measured = [trial.config for trial in self._trials if trial.is_conclusive]
        best = float(self.predict(measured).mean_log_step_ms.min())
        gains = self._model.expected_improvement(self._encode(candidates), best)
        return self._with_expectation(candidates[int(np.argmax(gains))])

    def predict(self, configs: Sequence[Config]) -> Prediction:
        """Return the posterior of the noise-free ln(step time).

        Raises:
            ValueError: If no valid sample was seen yet.
        """
        if self._model is None:
            raise ValueError("no valid sample to predict from")
        return Prediction(*self._model.predict(self._encode(configs)))

    def _initial(self) -> Config:
        """Return the built-in defaults if they were not tried, else the next untried of a few spread points."""
        configs = first_points(self._space, INITIAL_TRIALS, self._seed)
        tried = {trial.config for trial in self._trials}
        return next((config for config in configs if config not in tried), configs[0])

    def _candidates(self) -> list[Config]:
        """Return untried configs; all those drawn where there are none (small spaces)."""
        rng = np.random.default_rng([self._seed, sum(len(trial.samples) for trial in self._trials)])
        drawn = [self._space.random(rng) for _ in range(RANDOM_CANDIDATES)]
        for config in self._best_configs():
            drawn += [neighbour(self._space, config, rng) for _ in range(NEIGHBOURS_PER_BEST)]
        tried = {trial.config for trial in self._trials}
        distinct = list(dict.fromkeys(drawn))
        return [config for config in distinct if config not in tried] or distinct

    def _best_configs(self) -> list[Config]:
        measured = [trial.config for trial in self._trials if trial.is_conclusive]
        order = np.argsort(self.predict(measured).mean_log_step_ms)
        return [measured[int(index)] for index in order[:BEST_COUNT]]

    def _encode(self, configs: Sequence[Config]) -> Array:
        if self._space.dimension == 0:
            return np.zeros((len(configs), 1))  # scikit-learn wants a coordinate, also where nothing is free
        return np.stack([self._space.encode(config) for config in configs])

    def _with_expectation(self, config: Config) -> Suggestion:
        return expected_suggestion(config, self._trials, self.predict([config]))
