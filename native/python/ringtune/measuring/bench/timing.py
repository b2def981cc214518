# SPDX-License-Identifier: Apache-2.0
"""Timing of reductions, alike for every contestant; the twin of `allreduce_timing.h`, which compiled ones include.

A *call* sums some float32 arrays over all ranks, in place: one array of a given size, or the gradients of a workload's
step. A *group* is as many calls back to back as take about `group_ms`: the clock is read around groups, so that its
own cost stays small. A group's duration, divided by its calls, is one value.
"""

import json
import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from ringtune.errors import RingtuneError

from .workloads import ELEMENT_BYTES, Workload

Floats: TypeAlias = npt.NDArray[np.float32]

MIN_GROUPS = 5
MAX_GROUPS = 200
GROUP_MS = 1.0
DELAYS_OF_A_GROUP = 20
"""Shortest group between hosts at a delay, in delays.

Ranks leave the barrier before it up to a delay apart. Two ranks that are out of step by one take no time and two delays
for an exchange in turn, so that a single call shows neither's duration.
"""
MOST_OVERRUN = 5.0  # later groups may be far slower than the first (ranks outnumber cores)
_LOOKS = 3  # the first calls are slower than what comes, and are the warm-up
_ALIGNMENT_BYTES = 64
_PERIOD = 251


@dataclass(frozen=True)
class Scheme:
    """Subjects that all contestants measure, and the time for each.

    Attributes:
        sizes_bytes: Bytes of single allreduces.
        workloads: Gradients of steps.
        group_ms: About how long a group takes.
        max_calls: The most calls of a group.
        size_ms: About how long all groups of a size take.
        workload_ms: About how long all groups of a workload take.
    """

    sizes_bytes: tuple[int, ...]
    workloads: tuple[Workload, ...] = ()
    group_ms: float = GROUP_MS
    max_calls: int = 1000
    size_ms: float = 200.0
    workload_ms: float = 1000.0

    @classmethod
    def between_hosts(cls, sizes_bytes: tuple[int, ...], workloads: tuple[Workload, ...], delay_ms: float) -> "Scheme":
        """Return the scheme for hosts at a delay, whose groups are long enough for it."""
        return cls(sizes_bytes, workloads, max(GROUP_MS, DELAYS_OF_A_GROUP * delay_ms))

    def arguments(self) -> list[str]:
        """Return the last arguments of every contestant's command."""
        times = [f"{self.group_ms:g}", str(self.max_calls), f"{self.size_ms:g}", f"{self.workload_ms:g}"]
        return [*times, *map(str, self.sizes_bytes), *(workload.argument() for workload in self.workloads)]

    @classmethod
    def from_arguments(cls, arguments: Sequence[str]) -> "Scheme":
        """Return the scheme that `arguments` describes."""
        group_ms, max_calls, size_ms, workload_ms, *subjects = arguments
        sizes = tuple(int(subject) for subject in subjects if ":" not in subject)
        workloads = tuple(Workload.from_argument(subject) for subject in subjects if ":" in subject)
        return cls(sizes, workloads, float(group_ms), int(max_calls), float(size_ms), float(workload_ms))

    def subjects(self) -> set[tuple[str, int]]:
        """Return the subjects of every contestant's rows: names of workloads, empty for sizes, and bytes."""
        return {("", size) for size in self.sizes_bytes} | {(each.name, each.bytes) for each in self.workloads}


class TimedRank(Protocol):
    """One rank of a contestant."""

    rank: int
    ranks: int

    def allreduce(self, data: Floats, calls: int) -> None:
        """Sum an array over all ranks, in place, `calls` times."""


@dataclass(frozen=True)
class Way:
    """A way to sum arrays, which is checked and timed.

    Attributes:
        name: Name of its row.
        arrays: Arrays that a call sums, all of them.
        call: Runs a given number of calls.
        workload: Name of the arrays' workload; empty for a single allreduce.
    """

    name: str
    arrays: Sequence[Floats]
    call: Callable[[int], None]
    workload: str = ""


def measure_sizes(name: str, scheme: Scheme, caller: TimedRank, zeros: Callable[[int], Floats] | None = None) -> None:
    """Check and time single allreduces; rank 0 prints a row for each.

    Args:
        name: Name of the rows.
        scheme: Subjects to measure, and for how long.
        caller: This rank.
        zeros: Returns the memory of so many elements; None: `aligned_zeros`.

    Raises:
        RingtuneError: If a sum is wrong.
    """
    for size_bytes in scheme.sizes_bytes:
        data = (zeros or aligned_zeros)(size_bytes // ELEMENT_BYTES)
        measure(Way(name, [data], partial(caller.allreduce, data)), scheme, caller)


def measure(way: Way, scheme: Scheme, caller: TimedRank) -> None:
    """Check, time and check again; rank 0 prints the row.

    Args:
        way: Way of reducing to measure.
        scheme: Time to measure for.
        caller: This rank.

    Raises:
        RingtuneError: If a sum is wrong.
    """
    _check(way, caller)
    for array in way.arrays:
        array.fill(0)  # zeros add up to zeros, however many calls there are
    call_us = _time_calls(way, scheme, caller)
    _check(way, caller)
    if caller.rank == 0:
        sys.stdout.write(json.dumps(row(way, caller.ranks, call_us)) + "\n")
        sys.stdout.flush()


def row(way: Way, ranks: int, call_us: Sequence[float]) -> dict[str, str | int | float]:
    """Return a contestant's output for a way.

    Args:
        way: Way of reducing that was measured.
        ranks: Number of ranks.
        call_us: Microseconds per call, one value per group.
    """
    ascending = sorted(call_us)
    return {
        "way": way.name,
        "workload": way.workload,
        "bytes": sum(array.nbytes for array in way.arrays),
        "ranks": ranks,
        "us_median": round(_quantile(ascending, 0.5), 4),
        "us_p99": round(_quantile(ascending, 0.99), 4),
    }


def aligned_zeros(elements: int) -> Floats:
    """Return memory as a framework would: aligned to a cache line."""
    memory = np.zeros(ELEMENT_BYTES * elements + _ALIGNMENT_BYTES, dtype=np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT_BYTES
    return memory[start : start + ELEMENT_BYTES * elements].view(np.float32)


def _time_calls(way: Way, scheme: Scheme, caller: TimedRank) -> list[float]:
    """Return microseconds per call, one value per group; they end where they take far longer than they should."""
    calls = 1
    for _ in range(_LOOKS):
        call_s = _time_group(way, caller, calls) / calls
        calls = _agree(caller, _bounded(scheme.group_ms / 1e3 / call_s, 1, scheme.max_calls))
    group_s = _time_group(way, caller, calls)
    all_s = (scheme.workload_ms if way.workload else scheme.size_ms) / 1e3
    groups = _agree(caller, _bounded(all_s / group_s, MIN_GROUPS, MAX_GROUPS))
    taken_s: list[float] = []
    while len(taken_s) < groups and not _agree(
        caller, len(taken_s) >= MIN_GROUPS and sum(taken_s) > MOST_OVERRUN * all_s
    ):
        taken_s.append(_time_group(way, caller, calls))
    return [each_s / calls * 1e6 for each_s in taken_s]


def _time_group(way: Way, caller: TimedRank, calls: int) -> float:
    _agree(caller, 0)  # a barrier
    start = time.perf_counter()
    way.call(calls)
    return time.perf_counter() - start


def _agree(caller: TimedRank, number: int) -> int:
    """Return rank 0's number, on every rank."""
    agreed = aligned_zeros(1)
    agreed[0] = number if caller.rank == 0 else 0
    caller.allreduce(agreed, 1)
    return int(agreed[0])


def _bounded(count: float, low: int, high: int) -> int:
    return max(low, min(high, round(min(count, high))))


def _quantile(ascending: Sequence[float], share: float) -> float:
    return ascending[max(math.ceil(share * len(ascending)), 1) - 1]


def _check(way: Way, caller: TimedRank) -> None:
    """Run a call on small integers, whose sums are exact in any order; no two arrays in a row hold the same ones."""
    patterns = [(np.arange(array.size) + number) % _PERIOD for number, array in enumerate(way.arrays)]
    for array, pattern in zip(way.arrays, patterns, strict=True):
        array[:] = pattern + caller.rank
    way.call(1)
    for number, (array, pattern) in enumerate(zip(way.arrays, patterns, strict=True)):
        expected = pattern * caller.ranks + caller.ranks * (caller.ranks - 1) // 2
        if not np.array_equal(array, expected.astype(np.float32)):
            of_step = f" in tensor {number} of {way.workload}" if way.workload else ""
            raise RingtuneError(f"{way.name}: rank {caller.rank} has a wrong sum of {array.size} elements{of_step}")
