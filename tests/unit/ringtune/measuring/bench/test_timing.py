# SPDX-License-Identifier: Apache-2.0
"""Timing of calls, shared by all contestants in Python."""

import json

import numpy as np
import pytest

from ringtune.errors import RingtuneError
from ringtune.measuring.bench.timing import Floats, Scheme, Way, aligned_zeros, measure, measure_sizes, row
from ringtune.measuring.bench.workloads import Workload, WorkloadGradient

WORKLOAD = Workload("small", (WorkloadGradient("layer.weight", 8), WorkloadGradient("kernel:0=a", 1)))
SCHEME = Scheme((4, 4096), (WORKLOAD,), group_ms=0.01, max_calls=7, size_ms=0.1, workload_ms=0.2)


class Alone:
    """A world of one rank, which counts its calls and may compute something wrong."""

    def __init__(self, wrong_elements: int = 0) -> None:
        self.rank = 0
        self.ranks = 1
        self.calls_seen: list[int] = []
        self._wrong_elements = wrong_elements

    def allreduce(self, data: Floats, calls: int) -> None:
        """Leave the array as it is: the sum over one rank."""
        self.calls_seen.append(calls)
        if data.size == self._wrong_elements:
            data[-1] += 1


def test_every_size_is_printed_as_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    """In the order of the sizes, with way, ranks and times."""
    measure_sizes("alone", SCHEME, Alone())

    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [("alone", 4, 1), ("alone", 4096, 1)] == [(line["way"], line["bytes"], line["ranks"]) for line in rows]
    assert all(0 < line["us_median"] <= line["us_p99"] for line in rows)


@pytest.mark.parametrize(("delay_ms", "group_ms"), [(0.0, 1.0), (0.01, 1.0), (5.0, 100.0)])
def test_groups_between_hosts_last_for_many_delays(delay_ms: float, group_ms: float) -> None:
    """Ranks begin a group up to a delay apart."""
    assert group_ms == Scheme.between_hosts((4,), (), delay_ms).group_ms


def test_a_wrong_sum_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    """One wrong element at the end is enough, and no line is printed for that size."""
    with pytest.raises(RingtuneError, match=r"alone: rank 0 has a wrong sum of 1024 elements"):
        measure_sizes("alone", SCHEME, Alone(wrong_elements=1024))

    assert 1 == len(capsys.readouterr().out.splitlines())


def test_a_step_is_checked_tensor_by_tensor(capsys: pytest.CaptureFixture[str]) -> None:
    """Two gradients of one size that got each other's sums are an error, and the tensor is named."""
    arrays = [aligned_zeros(4), aligned_zeros(4)]

    def swap(calls: int) -> None:
        for _ in range(calls):
            arrays[0][:], arrays[1][:] = arrays[1].copy(), arrays[0].copy()

    with pytest.raises(RingtuneError, match=r"swapped: rank 0 has a wrong sum of 4 elements in tensor 0 of small"):
        measure(Way("swapped", arrays, swap, "small"), SCHEME, Alone())

    assert "" == capsys.readouterr().out


def test_what_is_wrong_after_the_timing_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    """A way that was right once is looked at again at the end."""
    array = aligned_zeros(4)
    calls_seen = []

    def break_later(calls: int) -> None:
        calls_seen.append(calls)
        array[0] += len(calls_seen) > 4

    with pytest.raises(RingtuneError, match=r"late: rank 0 has a wrong sum"):
        measure(Way("late", [array], break_later), SCHEME, Alone())

    assert "" == capsys.readouterr().out


def test_a_group_has_no_more_calls_than_the_scheme_allows() -> None:
    """However quick a call is; quick ones are grouped."""
    caller = Alone()

    measure_sizes("alone", SCHEME, caller)

    assert 7 == max(caller.calls_seen)


def test_a_row_has_the_median_and_the_99th_percentile() -> None:
    """The median and the percentile come from values in any order; the percentile is one of them."""
    way = Way("a", [aligned_zeros(2), aligned_zeros(3)], lambda _: None, "small")

    written = row(way, 2, range(100, 0, -1))

    assert ("a", "small", 20, 2) == (written["way"], written["workload"], written["bytes"], written["ranks"])
    assert (50, 99) == (written["us_median"], written["us_p99"])


def test_a_scheme_survives_the_command_line() -> None:
    """The scheme that a contestant reads is the one that it was given."""
    assert SCHEME == Scheme.from_arguments(SCHEME.arguments())


def test_buffers_begin_at_a_cache_line() -> None:
    """A buffer of any size begins at a cache line, as those of frameworks do."""
    arrays = [aligned_zeros(elements) for elements in (1, 3, 1000)]

    assert [0, 0, 0] == [array.ctypes.data % 64 for array in arrays]
    assert [np.float32] * 3 == [array.dtype for array in arrays]
