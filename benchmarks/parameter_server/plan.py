# SPDX-License-Identifier: Apache-2.0
"""Plan of the comparison: the trials of a round, which answer the page's questions."""

from collections.abc import Sequence
from dataclasses import replace

from .trial import ASYNC, DDP, ONE_HOST, RINGTUNE, SYNC, TENSORFLOW, Trial

WORKERS = (2, 4, 8)
LINKS = ("1gbit", "100mbit")
SERVERS = 2
"""Largest number of servers of a way."""
SLOWEST = LINKS[-1]
PLACES = (ONE_HOST, *LINKS)
WAYS = ((SYNC, 1), (SYNC, 2), (ASYNC, 1), (ASYNC, 2), (DDP, 0), (RINGTUNE, 0))
"""Ways with their number of servers."""
SINGLE_WAYS = ((SYNC, 1), (ASYNC, 1), (DDP, 0), (RINGTUNE, 0))
"""Ways on one host: a second server there divides no link."""
SECONDS = {ONE_HOST: 0.8, "1gbit": 1.0, "100mbit": 2.0}
"""Time of a trial; the step that it ends in is measured to its end, 1.5 s with 8 workers at 100 Mbit/s."""
SLOW_WORKERS, SLOWDOWN = 4, 3.0
"""Trials with one slow worker, and those without it that they are compared with."""
LOSS_SECONDS = 2.0
"""Time of trials whose losses are compared."""
STALE_WORKERS, HIGH_RATE = 8, 0.1
"""Trials of stale gradients; at twice this rate no way learns."""
LEARNING_RATE = 0.05
ALONE = Trial(ASYNC, 1, 1, ONE_HOST, learning_rate=LEARNING_RATE, compute_ms=0.0, seconds=LOSS_SECONDS)
"""A single worker: its gradients are never stale."""
WITNESSED = ((2, 1), (4, 2))
"""Workers and servers of TensorFlow's trials."""


def round_of(seed: int, places: Sequence[str], workers: Sequence[int]) -> list[Trial]:
    """Return the trials of a round, which all start from the same parameters and see the same images.

    Args:
        seed: Number of the round.
        places: Some of `PLACES`.
        workers: Numbers of workers.
    """
    trials = [trial for place in places for trial in _trials_at(place, workers)]
    if ONE_HOST in places and STALE_WORKERS in workers:
        trials += _stale_trials()
    return [replace(trial, seed=seed) for trial in trials]


def _trials_at(place: str, workers: Sequence[int]) -> list[Trial]:
    """Return the trials of all ways at a place; where steps are short enough also with a slow worker."""
    ways = SINGLE_WAYS if place == ONE_HOST else WAYS
    trials = [_trial(way, servers, count, place) for way, servers in ways for count in workers]
    if place == SLOWEST:
        return trials
    return trials + [replace(trial, slowdown=SLOWDOWN) for trial in trials if trial.workers == SLOW_WORKERS]


def _stale_trials() -> list[Trial]:
    """Return the trials of stale gradients that are not among the others."""
    alone = [replace(ALONE, learning_rate=rate) for rate in (LEARNING_RATE, HIGH_RATE)]
    together = [_trial(way, 1, STALE_WORKERS, ONE_HOST) for way in (SYNC, ASYNC)]
    return alone + [replace(trial, learning_rate=HIGH_RATE) for trial in together]


def witnessed(seed: int) -> list[Trial]:
    """Return TensorFlow's trials of a round."""
    place = LINKS[0]
    trials = [
        replace(_trial(TENSORFLOW, servers, workers, place), seconds=LOSS_SECONDS) for workers, servers in WITNESSED
    ]
    return [replace(trial, seed=seed) for trial in trials]


def _trial(way: str, servers: int, workers: int, place: str) -> Trial:
    is_slowed = place != SLOWEST and workers == SLOW_WORKERS
    is_stale = place == ONE_HOST and workers == STALE_WORKERS and way in (SYNC, ASYNC)
    seconds = LOSS_SECONDS if is_slowed or is_stale else SECONDS[place]
    return Trial(way, servers, workers, place, learning_rate=LEARNING_RATE, seconds=seconds)
