# SPDX-License-Identifier: Apache-2.0
"""Shrinkage: a prediction without a model of the space, each config's mean shrunk to the pooled mean."""

from collections.abc import Sequence
from statistics import fmean

import numpy as np

from ringtune.tuner.sample import Trial
from ringtune.tuner.space.config import Config

from .base import Prediction

NOISE_FLOOR = 1e-4
"""Smallest variance of ln(step time) between samples of one config: (1 %)^2, for single or identical samples."""


def shrunk_means(configs: Sequence[Config], trials: Sequence[Trial]) -> Prediction:
    """Return the configs' means shrunk to the pooled mean, more strongly the noisier the samples are.

    Raises:
        ValueError: If no valid sample was seen yet.
    """
    samples = {trial.config: trial.log_step_ms for trial in trials if trial.is_conclusive}
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
    """Return the variance between samples of one config, pooled over the configs with several."""
    repeated = [group for group in groups if len(group) > 1]
    squares = sum(sum((x - fmean(group)) ** 2 for x in group) for group in repeated)
    freedom = sum(len(group) - 1 for group in repeated)
    return max(squares / freedom, NOISE_FLOOR) if freedom else NOISE_FLOOR
