# SPDX-License-Identifier: Apache-2.0
"""How every contestant times an allreduce; the twin of `allreduce_timing.h`, which the compiled ones include.

A *call* is one float32 sum allreduce, in place. A *group* is as many calls back to back as take about `group_ms`: the
clock is read around groups, so that it is not what is measured. What a group took, divided by its calls, is one value.
"""

import json
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from ringtune.errors import RingtuneError

Floats: TypeAlias = npt.NDArray[np.float32]

MIN_GROUPS = 5
MAX_GROUPS = 200
_LOOKS = 3  # the first calls are slower than what comes, and are the warm-up
_ALIGNMENT_BYTES = 64
_PERIOD = 251


@dataclass(frozen=True)
class Scheme:
    """What all contestants measure, and for how long.

    Attributes:
        sizes_bytes: Bytes of each allreduce.
        group_ms: About how long a group takes.
        max_calls: The most calls of a group.
        size_ms: About how long all groups of a size take.
    """

    sizes_bytes: tuple[int, ...]
    group_ms: float = 1.0
    max_calls: int = 1000
    size_ms: float = 200.0

    def arguments(self) -> list[str]:
        """Return the last arguments of every contestant's command."""
        return [f"{self.group_ms:g}", str(self.max_calls), f"{self.size_ms:g}", *map(str, self.sizes_bytes)]

    @classmethod
    def from_arguments(cls, arguments: Sequence[str]) -> "Scheme":
        """Return the scheme that `arguments` describes."""
        group_ms, max_calls, size_ms, *sizes = arguments
        return cls(tuple(map(int, sizes)), float(group_ms), int(max_calls), float(size_ms))


class Caller(Protocol):
    """One rank of a contestant."""

    rank: int
    ranks: int

    def allreduce(self, data: Floats, calls: int) -> None:
        """Sum an array over all ranks, in place, as many times as `calls` says."""


def measure_all(way: str, scheme: Scheme, caller: Caller) -> None:
    """Check and time every size; rank 0 prints a row for each.

    Args:
        way: What the rows are named.
        scheme: What to measure.
        caller: This rank.

    Raises:
        RingtuneError: If a sum is wrong.
    """
    for size_bytes in scheme.sizes_bytes:
        data = aligned_zeros(size_bytes // 4)
        _check(way, caller, data)
        data.fill(0)  # zeros add up to zeros, however many calls there are
        call_us = _time_calls(scheme, caller, data)
        _check(way, caller, data)
        if caller.rank == 0:
            sys.stdout.write(json.dumps(row(way, size_bytes, caller.ranks, call_us)) + "\n")
            sys.stdout.flush()


def row(way: str, size_bytes: int, ranks: int, call_us: Sequence[float]) -> dict[str, str | int | float]:
    """Return what a contestant prints for a size.

    Args:
        way: Its name.
        size_bytes: The size.
        ranks: Number of ranks.
        call_us: Microseconds per call, one value per group.
    """
    ascending = sorted(call_us)
    return {
        "way": way,
        "bytes": size_bytes,
        "ranks": ranks,
        "us_median": round(_quantile(ascending, 0.5), 4),
        "us_p99": round(_quantile(ascending, 0.99), 4),
    }


def aligned_zeros(elements: int) -> Floats:
    """Return memory as a framework would: aligned to a cache line."""
    memory = np.zeros(4 * elements + _ALIGNMENT_BYTES, dtype=np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT_BYTES
    return memory[start : start + 4 * elements].view(np.float32)


def _time_calls(scheme: Scheme, caller: Caller, data: Floats) -> list[float]:
    """Return microseconds per call, one value per group."""
    calls = 1
    for _ in range(_LOOKS):
        call_s = _time_group(caller, data, calls) / calls
        calls = _agree(caller, _bounded(scheme.group_ms / 1e3 / call_s, 1, scheme.max_calls))
    group_s = _time_group(caller, data, calls)
    groups = _agree(caller, _bounded(scheme.size_ms / 1e3 / group_s, MIN_GROUPS, MAX_GROUPS))
    return [_time_group(caller, data, calls) / calls * 1e6 for _ in range(groups)]


def _time_group(caller: Caller, data: Floats, calls: int) -> float:
    _agree(caller, 0)  # a barrier
    start = time.perf_counter()
    caller.allreduce(data, calls)
    return time.perf_counter() - start


def _agree(caller: Caller, number: int) -> int:
    """Return rank 0's number, on every rank."""
    agreed = aligned_zeros(1)
    agreed[0] = number if caller.rank == 0 else 0
    caller.allreduce(agreed, 1)
    return int(agreed[0])


def _bounded(count: float, low: int, high: int) -> int:
    return max(low, min(high, round(min(count, high))))


def _quantile(ascending: Sequence[float], share: float) -> float:
    return ascending[max(math.ceil(share * len(ascending)), 1) - 1]


def _check(way: str, caller: Caller, data: Floats) -> None:
    """Run a call on small integers, whose sums are exact in any order."""
    pattern = np.arange(data.size) % _PERIOD
    data[:] = pattern + caller.rank
    caller.allreduce(data, 1)
    expected = pattern * caller.ranks + caller.ranks * (caller.ranks - 1) // 2
    if not np.array_equal(data, expected.astype(np.float32)):
        raise RingtuneError(f"{way}: rank {caller.rank} has a wrong sum of {data.size} elements")
