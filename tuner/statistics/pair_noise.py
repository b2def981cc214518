# SPDX-License-Identifier: Apache-2.0
"""What the samples before the adoption test say of how much its pairs will scatter."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from ringtune.tuner.sample import Sample, Trial

from .step_noise import MAD_EFFICIENCY, Scatter

Array = NDArray[np.float64]

MIN_PAIRS = 2
"""An interval needs two pairs."""
LEAST_WEIGHT, USUAL_WEIGHT, MOST_WEIGHT = 2, 6, 12
"""What the samples before the test say of the noise counts as much as so many pairs.

Two more than there are repeats, the usual at most; more, up to the most, where it rests on the scatter of steps, of
which there are many. Where too few windows were repeated to say how much they differ, WINDOW_STD is a guess: then the
least, or as much as with MIN_REPEATS where steps scatter by so much that it hardly matters whether windows differ by
LARGE_WINDOW_STD.
"""
SPEAKING_PAIRS = 8
"""From so many on the pairs speak alone."""
MIN_REPEATS = 2
"""So many windows beside each config's first say how much windows differ."""
WINDOW_STD = 0.008
"""By how much two windows of one config differ beyond what the scatter of their steps explains, as ln(step time)."""
LARGE_WINDOW_STD = 0.03
"""The same on a bad machine."""


@dataclass(frozen=True)
class PairNoise:
    """How much ln(baseline / challenger) should vary from pair to pair.

    Attributes:
        variance: Of a pair as good as most are.
        weight: As how many pairs this counts beside two.
        scale: Of each pair's variance, over what its own windows explain; phi of `paired_test`.
    """

    variance: float
    weight: float = USUAL_WEIGHT
    scale: float = 1.0

    def weight_beside(self, pairs: int) -> float:
        """Return as how many pairs it counts beside so many: the less, the more there are."""
        of_each = max(self.weight / (SPEAKING_PAIRS - MIN_PAIRS), 1.0)
        return max(self.weight - max(pairs - MIN_PAIRS, 0) * of_each, 0.0)


def window_variance(sample: Sample, scatter: Scatter, steps: int | None = None) -> float:
    """Return the variance of ln(typical step time) that a window should have, its config's mean known.

    Args:
        sample: As of `Scatter.log_variance`.
        scatter: Of all samples.
        steps: As of `Scatter.log_variance`.
    """
    return scatter.log_variance(sample, steps) + WINDOW_STD**2


def usual_window_variance(trials: Sequence[Trial], steps: int) -> float:
    """Return what a window of so many steps should have, as all samples so far tell, of which one is valid at least."""
    return Scatter.of(trials).step_variance / steps + WINDOW_STD**2


def expected_pair_noise(trials: Sequence[Trial], window_steps: int) -> PairNoise:
    """Return what samples say of the noise of pairs.

    A pair of windows varies by what the scatter of their steps and WINDOW_STD let expect, or by more where windows of
    the same config have differed by more than that; a drift of the machine makes them differ by more than pairs. The
    first is a sum of two variances, one known from many steps, the other only not refuted by repeated windows.

    Args:
        trials: The baseline first; at least one sample is valid.
        window_steps: Of each of a pair's windows: the fewer, the more what is typical of it scatters.
    """
    samples = [sample for trial in trials for sample in trial.samples if sample.valid]
    scatter = Scatter.of(trials)
    variances = np.array([window_variance(sample, scatter, window_steps) for sample in samples])
    usual = _usual_pair_variance(variances)
    squares, repeats = _between_windows(trials, scatter)
    of_steps = fmean(variances) - WINDOW_STD**2
    steps = MAD_EFFICIENCY * sum(sample.steps for sample in samples)
    if repeats < MIN_REPEATS:
        freedom = _freedom(of_steps, steps, LARGE_WINDOW_STD**2, 1)
        return PairNoise(usual, min(max(freedom, LEAST_WEIGHT), MIN_REPEATS + 2))
    weight = min(repeats + 2, USUAL_WEIGHT)
    scale = squares / repeats
    if scale > 1.0:
        return PairNoise(scale * usual, weight, scale)
    freedom = _freedom(of_steps, steps, WINDOW_STD**2, repeats)
    return PairNoise(usual, min(max(freedom, weight), MOST_WEIGHT))


def _freedom(of_steps: float, steps: float, of_windows: float, repeats: int) -> float:
    """Return how many degrees of freedom a sum of two variances has, one known from steps, the other from repeats.

    Satterthwaite 1946, "An approximate distribution of estimates of variance components".
    """
    return (of_steps + of_windows) ** 2 / (of_steps**2 / steps + of_windows**2 / repeats)


def _usual_pair_variance(variances: Array) -> float:
    """Return that of which so many pairs tell as much as pairs of any two windows do, each weighed by its own."""
    of_pairs = variances[:, None] + variances[None, :]
    return 1.0 / float(np.mean(1.0 / of_pairs))


def _between_windows(trials: Sequence[Trial], scatter: Scatter) -> tuple[float, int]:
    """Return the squares of what windows differ by from their config's mean, over their variances; their freedom."""
    squares, repeats = 0.0, 0
    for trial in trials:
        samples = [sample for sample in trial.samples if sample.valid]
        if len(samples) > 1:
            y = np.array([math.log(sample.typical_ms) for sample in samples])
            precisions = np.array([1.0 / window_variance(sample, scatter) for sample in samples])
            mean = np.average(y, weights=precisions)
            squares += float(precisions @ (y - mean) ** 2)
            repeats += len(samples) - 1
    return squares, repeats
