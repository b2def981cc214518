# SPDX-License-Identifier: Apache-2.0
"""The thread that computes: when each gradient is submitted, if communication takes cores from it now and then.

Progress is the time that the pass would have taken undisturbed; the clock tells which progress is reached when.
"""

import math
from collections.abc import Callable, Sequence

from .cluster import Cluster
from .collectives import Duration

DurationOf = Callable[[float], Duration]
"""How long something takes on the communication threads if their work takes so many times as long."""


class Backward:
    """The backward pass of every rank, from the first gradient to the last.

    Attributes:
        end_ms: When the pass ends, as far as is known; then the rank waits for its gradients.
    """

    def __init__(self, ready_ms: Sequence[float], start_ms: float, cluster: Cluster, compute_threads: float) -> None:
        """Begin the pass.

        Args:
            ready_ms: Progress at which each gradient is submitted, ascending; the pass ends with the last.
            start_ms: When it begins.
            cluster: Whose cores its threads share.
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
        """When the pass ends if nothing disturbs it any more."""
        return self.submitted_ms(len(self._ready_ms) - 1)

    def submitted_ms(self, number: int) -> float:
        """Return when a gradient is submitted; later, if communication runs before that."""
        if number < len(self._submitted_ms):
            return self._submitted_ms[number]
        return self._now_ms + (self._ready_ms[number] - self._progress_ms)

    def run_beside(self, start_ms: float, duration_of: DurationOf) -> float:
        """Run something on the communication threads, no earlier than the last thing's end; return when it ends."""
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
        """Return how fast the pass goes on while something else runs, as a share of its own speed."""
        if self._threads == 0.0:
            return 1.0
        busy = min(1.0, other.work_ms / other.total_ms)
        undisturbed = self._cluster.threads_per_core(self._threads)
        return undisturbed / self._cluster.threads_per_core(self._threads + busy)

    def _advance(self, to_ms: float, speed: float) -> None:
        """Let the pass go on until `to_ms`; what it submits meanwhile is noted."""
        reached = self._progress_ms + (to_ms - self._now_ms) * speed
        if math.isclose(reached, self._total_ms, rel_tol=1e-12):
            reached = self._total_ms
        while len(self._submitted_ms) < len(self._ready_ms) and self._ready_ms[len(self._submitted_ms)] <= reached:
            ready_ms = self._ready_ms[len(self._submitted_ms)]
            self._submitted_ms.append(self._now_ms + (ready_ms - self._progress_ms) / speed)
        self._now_ms, self._progress_ms = to_ms, reached
