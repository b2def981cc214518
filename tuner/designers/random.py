# SPDX-License-Identifier: Apache-2.0
"""The random designer: uniform configs, per-config means shrunk to the pooled mean. The control for all others."""

from collections.abc import Sequence
from statistics import fmean

import numpy as np

from ringtune.tuner.config import Config
from ringtune.tuner.sample import Trial
from ringtune.tuner.space import SearchSpace

from .base import Prediction, Suggestion

DRAWS = 100
"""Draws for a config not tried yet, before a repetition is accepted (small spaces run out)."""
NOISE_FLOOR = 1e-4
"""Smallest variance of ln(step time) between samples of one config: 1 %, for bases of one or equal samples."""


class RandomDesigner:
    """Draws configs uniformly over the space's quantiles; learns nothing but each config's own mean."""

    name = "random"

    def __init__(self, space: SearchSpace, seed: int) -> None:
        """Start without trials; `seed` decides every draw."""
        self._space = space
        self._seed = seed
        self._trials: tuple[Trial, ...] = ()

    def update(self, trials: Sequence[Trial]) -> None:
        """Take in all trials so far."""
        self._trials = tuple(trials)

    def suggest(self) -> Suggestion:
        """Return a random config, a new one where the space has one."""
        tried = {trial.config for trial in self._trials}
        rng = np.random.default_rng([self._seed, len(self._trials), sum(len(t.samples) for t in self._trials)])
        config = self._space.random(rng)
        for _ in range(DRAWS):
            if config not in tried:
                break
            config = self._space.random(rng)
        return Suggestion(config)

    def predict(self, configs: Sequence[Config]) -> Prediction:
        """Return shrunk means: a measured config's own mean drawn to that of all, more so the noisier samples are.

        Raises:
            ValueError: If no valid sample was seen yet.
        """
        samples = {trial.config: trial.log_step_ms for trial in self._trials if trial.is_conclusive}
        if not samples:
            raise ValueError("no valid sample to predict from")
        means = {config: fmean(values) for config, values in samples.items()}
        pooled = fmean(means.values())
        noise = _noise_variance(list(samples.values()))
        spread = max(float(np.var(list(means.values()))) - noise, NOISE_FLOOR)
        posterior_means, stds = [], []
        for config in configs:
            count = len(samples.get(config, ()))
            weight = spread / (spread + noise / count) if count else 0.0
            posterior_means.append(pooled + weight * (means.get(config, pooled) - pooled))
            stds.append((spread * (1.0 - weight)) ** 0.5)
        return Prediction(np.array(posterior_means), np.array(stds))


def _noise_variance(groups: Sequence[Sequence[float]]) -> float:
    """Return the variance between samples of one config, pooled over those with several."""
    repeated = [group for group in groups if len(group) > 1]
    squares = sum(sum((x - fmean(group)) ** 2 for x in group) for group in repeated)
    freedom = sum(len(group) - 1 for group in repeated)
    return max(squares / freedom, NOISE_FLOOR) if freedom else NOISE_FLOOR
