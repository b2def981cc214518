# SPDX-License-Identifier: Apache-2.0
"""Results in the columns of nccl-tests and of the OSU micro-benchmarks, for scripts and eyes that know these.

A block per way, sizes ascending. A time is the median over rounds of one call, in place. Every sum was checked before
and after it was timed, and a wrong one ends the run: no row has any. Algorithm bandwidth is bytes / time; bus bandwidth
is that times 2 (n - 1) / n for n ranks, as nccl-tests define it for an allreduce.
"""

from collections.abc import Sequence
from itertools import groupby

from rich.console import Console

from .results import Summary
from .workloads import ELEMENT_BYTES

NCCL_TESTS, OSU = "nccl-tests", "osu"
_GB_PER_S = 1e3  # bytes per microsecond


FORMATS = ("table", NCCL_TESTS, OSU)
"""Formats of the command; the first one is not of this module."""


def print_text(console: Console, name: str, summaries: Sequence[Summary], ranks: int) -> None:
    """Print single allreduces in another program's columns, a block per way.

    Args:
        console: Console to print on.
        name: `nccl-tests` or `osu`.
        summaries: Summaries of a run without workloads.
        ranks: Number of ranks.
    """
    block_text = _nccl_tests_text if name == NCCL_TESTS else _osu_text
    by_way = sorted(summaries, key=lambda summary: summary.way)  # keeps the order of sizes
    for way, rows in groupby(by_way, key=lambda summary: summary.way):
        console.print(block_text(way, list(rows), ranks), soft_wrap=True, highlight=False, markup=False)


def _nccl_tests_text(way: str, rows: Sequence[Summary], ranks: int) -> str:
    to_bus = 2 * (ranks - 1) / ranks
    lines = [
        f"# {way}, {ranks} ranks, in place",
        f"#{'size':>12}{'count':>14}{'type':>8}{'redop':>8}{'root':>6}{'time':>12}{'algbw':>9}{'busbw':>9}{'#wrong':>8}",
        f"#{'(B)':>12}{'(elements)':>14}{'':>22}{'(us)':>12}{'(GB/s)':>9}{'(GB/s)':>9}",
    ]
    bus = [row.bytes / row.us_median / _GB_PER_S * to_bus for row in rows]
    for row, busbw in zip(rows, bus, strict=True):
        count = row.bytes // ELEMENT_BYTES
        lines.append(
            f" {row.bytes:>12}{count:>14}{'float':>8}{'sum':>8}{-1:>6}{row.us_median:>12.2f}{busbw / to_bus:>9.3f}"
            f"{busbw:>9.3f}{0:>8}"
        )
    return "\n".join([*lines, f"# Avg bus bandwidth    : {sum(bus) / len(bus):g}", ""])


def _osu_text(way: str, rows: Sequence[Summary], ranks: int) -> str:
    lines = [
        f"# {way}, {ranks} ranks: allreduce latency",
        f"{'# Size':<16}{'Median Latency(us)':>20}{'P99 Latency(us)':>20}",
    ]
    lines += [f"{row.bytes:<16}{row.us_median:>20.2f}{row.us_p99:>20.2f}" for row in rows]
    return "\n".join([*lines, ""])
