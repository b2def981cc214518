# SPDX-License-Identifier: Apache-2.0
"""Share of DDP's excess that ringtune's is, with an interval.

An excess is the time of a way above a floor. Rounds are the unit: a round's blocks follow each other within seconds, so
that the machine's drift is in all of them. Each block's logarithm is taken relative to its round's mean, each way's
mean leaves out the lowest and the highest fifth, and the interval resamples whole rounds (percentile bootstrap).

Source: Efron and Tibshirani, An Introduction to the Bootstrap (1993), section 13.3; trimmed means: Wilcox, Introduction
to Robust Estimation (2012), section 3.3.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

CONFIDENCE = 0.95
TRIMMED = 0.2
RESAMPLES = 4000
MIN_ROUNDS = 5
"""Fewest rounds whose trimmed mean leaves out any."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Share:
    """An estimate with the ends of its interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        """Return the share as a table shows it."""
        return f"{self.value:.2f} ({self.low:.2f} to {self.high:.2f})"


def share_of_excess(rounds: Sequence[Mapping[str, float]], floor: str, theirs: str, ours: str) -> Share:
    """Return (ours - floor) ÷ (theirs - floor) with its interval.

    Args:
        rounds: The time of each way's block, by round.
        floor: Way above which the excess is taken.
        theirs: Way whose excess is the whole.
        ours: Way whose excess is the share.

    Raises:
        ValueError: If there are fewer than `MIN_ROUNDS` rounds.
    """
    if len(rounds) < MIN_ROUNDS:
        raise ValueError(f"{len(rounds)} rounds have no interval; measure at least {MIN_ROUNDS}, with more --seconds")
    logs = np.log([[blocks[way] for way in (floor, theirs, ours)] for blocks in rounds])
    logs -= logs.mean(axis=1, keepdims=True)
    drawn = np.random.default_rng(0).integers(len(logs), size=(RESAMPLES, len(logs)))
    resampled = _shares(logs[drawn])
    low, high = np.quantile(resampled, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return Share(float(_shares(logs[np.newaxis])[0]), float(low), float(high))


def _shares(logs: Floats) -> Floats:
    """Return the share of each resample; `logs` has the shape (resamples, rounds, 3)."""
    kept = np.sort(logs, axis=1)
    cut = int(TRIMMED * kept.shape[1])
    floor, theirs, ours = np.exp(kept[:, cut : kept.shape[1] - cut].mean(axis=1)).T
    shares: Any = (ours - floor) / (theirs - floor)
    return np.asarray(shares, dtype=np.float64)
