# SPDX-License-Identifier: Apache-2.0
"""Results in the columns of other programs."""

from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from ringtune.errors import ConfigError
from ringtune.measuring.bench.comparison import Request
from ringtune.measuring.bench.results import Summary
from ringtune.measuring.bench.text_formats import NCCL_TESTS, OSU, print_text
from ringtune.measuring.bench.workloads import Workload, WorkloadGradient

SIZES = ((4096, 8.0), (1 << 20, 500.0))
SUMMARIES = [Summary("", size, way, us, 2 * us, None, None) for size, us in SIZES for way in ("engine", "gloo")]
STEP = Workload("w", (WorkloadGradient("g", 1),))


def text_of(name: str) -> list[list[str]]:
    """Return the words of each line."""
    console = Console(width=40)
    with console.capture() as capture:
        print_text(console, name, SUMMARIES, 4)
    return [line.split() for line in capture.get().splitlines()]


def test_bandwidths_are_those_of_nccl_tests() -> None:
    """2^20 bytes in 500 us are 2.097 GB/s; on the bus of four ranks that counts 1.5 times."""
    lines = text_of(NCCL_TESTS)

    rows = [line for line in lines if line and line[0].isdigit()]
    assert ["1048576", "262144", "float", "sum", "-1", "500.00", "2.097", "3.146", "0"] == rows[1]
    assert [["#", "engine,"], ["#", "gloo,"]] == [line[:2] for line in lines if line[2:4] == ["4", "ranks,"]]
    assert ["4096", "1048576"] * 2 == [row[0] for row in rows]
    average = (4096 / 8e3 + (1 << 20) / 5e5) / 2 * 1.5
    assert [average] * 2 == [pytest.approx(float(line[-1]), rel=1e-4) for line in lines if "Avg" in line]


def test_latencies_are_listed_as_osu_does() -> None:
    """A line per size has it, the median and the 99th percentile."""
    rows = [line for line in text_of(OSU) if line and line[0].isdigit()]

    assert [["4096", "8.00", "16.00"], ["1048576", "500.00", "1000.00"]] * 2 == rows


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({"text_format": "mpi"}, "known are table, nccl-tests, osu"),
        ({"text_format": OSU, "workloads": (STEP,)}, "--workload"),
        ({"text_format": OSU, "is_traced": True}, "--trace"),
    ],
)
def test_a_format_that_cannot_be_is_refused(asked: dict[str, Any], text: str) -> None:
    """The error names the formats, or the option that no format has a place for."""
    request = Request((), 2, (4,), 1, Path(), **asked)

    with pytest.raises(ConfigError, match=text):
        request.check()
