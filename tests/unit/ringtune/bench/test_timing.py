# SPDX-License-Identifier: Apache-2.0
"""How every contestant in Python times its calls."""

import json

import numpy as np
import pytest

from ringtune.bench.timing import Floats, Scheme, aligned_zeros, measure_all, row
from ringtune.errors import RingtuneError

SCHEME = Scheme((4, 4096), group_ms=0.01, max_calls=7, size_ms=0.1)


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
    measure_all("alone", SCHEME, Alone())

    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [("alone", 4, 1), ("alone", 4096, 1)] == [(line["way"], line["bytes"], line["ranks"]) for line in rows]
    assert all(0 < line["us_median"] <= line["us_p99"] for line in rows)


def test_a_wrong_sum_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    """One wrong element at the end is enough, and nothing is printed for that size."""
    with pytest.raises(RingtuneError, match=r"alone: rank 0 has a wrong sum of 1024 elements"):
        measure_all("alone", SCHEME, Alone(wrong_elements=1024))

    assert 1 == len(capsys.readouterr().out.splitlines())


def test_a_group_has_no_more_calls_than_the_scheme_allows() -> None:
    """However quick a call is; quick ones are grouped."""
    caller = Alone()

    measure_all("alone", SCHEME, caller)

    assert 7 == max(caller.calls_seen)


def test_a_row_has_the_median_and_the_99th_percentile() -> None:
    """Of values in any order; the percentile is one of them."""
    assert {"way": "a", "bytes": 8, "ranks": 2, "us_median": 50, "us_p99": 99} == row("a", 8, 2, range(100, 0, -1))


def test_a_scheme_survives_the_command_line() -> None:
    """What is given to a contestant is what it reads."""
    assert SCHEME == Scheme.from_arguments(SCHEME.arguments())


def test_buffers_begin_at_a_cache_line() -> None:
    """As those of frameworks do, whatever the size."""
    arrays = [aligned_zeros(elements) for elements in (1, 3, 1000)]

    assert [0, 0, 0] == [array.ctypes.data % 64 for array in arrays]
    assert [np.float32] * 3 == [array.dtype for array in arrays]
