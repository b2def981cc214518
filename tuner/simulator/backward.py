# SPDX-License-Identifier: Apache-2.0
"""Backward pass: the submission time of each gradient, while communication competes for the cores.

Progress is measured as the time that the undisturbed pass would have taken; the clock maps progress to time.
"""

import math
from collections.abc import Callable, Sequence

from .cluster import Cluster
from .collectives import Duration

DurationOf = Callable[[float], Duration]
"""Function from a stretch factor of the communication threads' work to the duration of an operation."""


class Backward:
    """Backward pass of every rank, from the first gradient to the last.

    Attributes:
        end_ms: Expected end of the pass, milliseconds; then the rank waits for its gradients.
    """

    def __init__(self, ready_ms: Sequence[float], start_ms: float, cluster: Cluster, compute_threads: float) -> None:
        """Begin the pass.

        Args:
            ready_ms: Progress at which each gradient is submitted, ascending; the pass ends with the last one.
            start_ms: Start of the pass, milliseconds.
            cluster: Cluster whose cores the threads share.
            compute_threads: Cores that a rank's pass keeps busy while no communication runs.
        """
        self._ready_ms = tuple(ready_ms)
        self._total_ms = self._ready_ms[-1]
        self._cluster = cluster
        self._threads = compute_threads
        self._now_ms = start_ms
        self._progress_ms = 0.0
        self._submitted_ms: list[float] = []

    @property
    def end_ms(self) -> float:
        """End of the pass without further disturbance, milliseconds."""
        return self.submitted_ms(len(self._ready_ms) - 1)

    def submitted_ms(self, number: int) -> float:
        """Return the submission time of a gradient; communication before then would delay it."""
        if number < len(self._submitted_ms):
            return self._submitted_ms[number]
        return self._now_ms + (self._ready_ms[number] - self._progress_ms)

    def run_beside(self, start_ms: float, duration_of: DurationOf) -> float:
        """Run an operation on the communication threads, after the previous one; return its end time."""
        self._advance(start_ms, 1.0)
        alone = duration_of(self._cluster.threads_per_core(1.0))
        left_ms = self._total_ms - self._progress_ms
        if left_ms <= 0.0:
            return start_ms + alone.total_ms
        beside = duration_of(self._cluster.threads_per_core(1.0 + self._threads))
        if beside.total_ms <= 0.0:
            return start_ms
        speed = self._speed_beside(beside)
        until_ms = left_ms / speed
        if beside.total_ms <= until_ms:
            self._advance(start_ms + beside.total_ms, speed)
            return start_ms + beside.total_ms
        self._advance(start_ms + until_ms, speed)
        return start_ms + until_ms + alone.total_ms * (1.0 - until_ms / beside.total_ms)

    def _speed_beside(self, other: Duration) -> float:
        """Return the speed of the pass beside another operation, as a share of its undisturbed speed."""
        if self._threads == 0.0:
            return 1.0
        busy = min(1.0, other.work_ms / other.total_ms)
        undisturbed = self._cluster.threads_per_core(self._threads)
        return undisturbed / self._cluster.threads_per_core(self._threads + busy)

    def _advance(self, to_ms: float, speed: float) -> None:
        """Advance the pass to `to_ms`, and record the gradients that it submits."""
        reached = self._progress_ms + (to_ms - self._now_ms) * speed
        if math.isclose(reached, self._total_ms, rel_tol=1e-12):
            reached = self._total_ms
        while len(self._submitted_ms) < len(self._ready_ms) and self._ready_ms[len(self._submitted_ms)] <= reached:
            ready_ms = self._ready_ms[len(self._submitted_ms)]
            self._submitted_ms.append(self._now_ms + (ready_ms - self._progress_ms) / speed)
        self._now_ms, self._progress_ms = to_ms, reached
