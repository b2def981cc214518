# SPDX-License-Identifier: Apache-2.0
"""Timed calls that take turns, and the row of a pair."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch.distributed as dist

Call = Callable[[], Any]
WARM_UP_CALLS = 3


@dataclass(frozen=True)
class Turns:
    """Rounds in which each call has a turn.

    Attributes:
        rounds: Their number.
    """

    rounds: int

    def seconds(self, arms: Sequence[Call], calls: int) -> list[list[float]]:
        """Return the seconds per call of each arm in every round, the arms in changing order."""
        for _ in range(WARM_UP_CALLS):
            for arm in arms:
                arm()
        found: list[list[float]] = [[] for _ in arms]
        for number in range(self.rounds):
            order = range(len(arms)) if number % 2 else reversed(range(len(arms)))
            for index in order:
                dist.barrier()
                begin_s = time.perf_counter()
                for _ in range(calls):
                    arms[index]()
                found[index].append((time.perf_counter() - begin_s) / calls)
        return found

    def row(self, name: str, arms: Sequence[Call], calls: int) -> str:
        """Return the row of Gloo's call and of ours."""
        gloo, ours = self.seconds(arms, calls)
        ratios = statistics.quantiles([mine / other for mine, other in zip(ours, gloo, strict=True)], n=4)
        medians = [1e6 * statistics.median(times) for times in (gloo, ours)]
        return (
            f"{name:36} gloo {medians[0]:9.0f} us  ringtune {medians[1]:9.0f} us  "
            f"ratio {ratios[1]:.3f} ({ratios[0]:.3f} to {ratios[2]:.3f})"
        )
