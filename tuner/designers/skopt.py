# SPDX-License-Identifier: Apache-2.0
"""Gaussian-process designer on scikit-optimize: its process and expected improvement, this package's candidates.

`skopt.Optimizer` would optimise over the box around the encoded space, where a special value can be "half chosen". This
designer evaluates the acquisition function at legal configs instead: random ones, and neighbours of the best.

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
    from .skopt_model import SkoptProcess

Array = NDArray[np.float64]

INITIAL_TRIALS = 6
"""Number of configs before the model chooses, the baseline included: about one per coordinate of the engine's space."""
RANDOM_CANDIDATES = 300
"""Number of random candidates of a suggestion."""
NEIGHBOURS_PER_BEST = 50
"""Number of neighbours around each of the best measured configs."""
BEST_COUNT = 3
"""Number of best measured configs around which candidates are drawn."""
WORST_OVER_BEST = 1.5
"""Cap of y above its minimum, ln(step time): very slow configs must not set the scale of the model."""


class SkoptDesigner:
    """Gaussian process (Matern 5/2, one length scale per coordinate, fitted noise) with expected improvement."""

    name = "skopt"

    def __init__(self, space: SearchSpace, seed: int) -> None:
        """Start without trials; `seed` determines every random choice."""
        self._space = space
        self._seed = seed
        self._trials: tuple[Trial, ...] = ()
        self._model: SkoptProcess | None = None

    def update(self, trials: Sequence[Trial]) -> None:
        """Fit the process to all valid samples of all trials."""
        # Importing scikit-learn takes seconds; this defers it to the designer's own thread.
        from .skopt_model import fitted_model  # noqa: PLC0415

        self._trials = tuple(trials)
        pairs = [(trial.config, y) for trial in trials for y in trial.log_step_ms]
        if not pairs:
            self._model = None
            return
        slowest = max(y for _, y in pairs)  # a worse time would bend the model around a config that failed
        pairs += [(trial.config, slowest) for trial in trials if trial.has_failed]
        x = self._encode([config for config, _ in pairs])
        y = np.array([value for _, value in pairs])
        self._model = fitted_model(x, np.minimum(y, y.min() + WORST_OVER_BEST), self._seed)

    def suggest(self) -> Suggestion:
        """Return space-filling configs first, then the candidate with the largest expected improvement."""
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
        """Return the first untried config of the built-in defaults and a few space-filling ones."""
        configs = first_points(self._space, INITIAL_TRIALS, self._seed)
        tried = {trial.config for trial in self._trials}
        return next((config for config in configs if config not in tried), configs[0])

    def _candidates(self) -> list[Config]:
        """Return untried configs, or all drawn configs if every one was tried (small spaces)."""
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
            return np.zeros((len(configs), 1))  # scikit-learn needs a coordinate even if no parameter is free
        return np.stack([self._space.encode(config) for config in configs])

    def _with_expectation(self, config: Config) -> Suggestion:
        return expected_suggestion(config, self._trials, self.predict([config]))
