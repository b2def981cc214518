# SPDX-License-Identifier: Apache-2.0
"""The table of `ringtune bench --hosts`: a section per size, with the wire's limit and a line per way."""

from collections.abc import Sequence
from itertools import groupby

from rich.table import Table

from ringtune.system.counts import counted

from .host_links import HostLinks
from .results import Summary
from .table import comparison_text, subject_text

_US_PER_MS = 1e3


def make_network_table(summaries: Sequence[Summary], wire: HostLinks, rounds: int) -> Table:
    """Return the table.

    Args:
        summaries: Summaries by size.
        wire: Link between the hosts.
        rounds: Number of rounds.
    """
    rate = f"{wire.rate_bits_per_s / 1e9:g} Gbit/s" + (f", {wire.delay_ms:g} ms" if wire.delay_ms else "")
    size = f"{counted(wire.ranks, 'rank')} on {counted(wire.hosts, 'host')}"
    table = Table(title=f"float32 sum allreduce, {size}, {rate}, {counted(rounds, 'round')}")
    for heading in ("size", "way"):
        table.add_column(heading)
    for heading in ("ms", "p99 ms", "÷ best peer", "% of ring's wire", "% of hierarchical wire"):
        table.add_column(heading, justify="right")
    for (subject, size_bytes), ways in groupby(
        summaries, lambda summary: (subject_text(summary.workload, summary.bytes), summary.bytes)
    ):
        ring_us, hierarchical_us = wire.ring_us(size_bytes), wire.hierarchical_us(size_bytes)
        table.add_row(subject, "wire, ring", ms_text(ring_us))
        table.add_row("", "wire, hierarchical", ms_text(hierarchical_us))
        for way in ways:
            shares = (f"{100 * limit_us / way.us_median:.0f}" for limit_us in (ring_us, hierarchical_us))
            times = (ms_text(way.us_median), ms_text(way.us_p99))
            table.add_row("", way.way, *times, comparison_text(way.to_best_peer), *shares)
        table.add_section()
    return table


def wire_note(wire: HostLinks) -> str:
    """Return the note on the wire: its payload rate, and the bytes that each algorithm sends over a link."""
    return (
        f"wire: {wire.payload_bytes_per_s / 1e6:.1f} MB/s of payload per link and direction, "
        f"{800 * wire.payload_bytes_per_s / wire.rate_bits_per_s:.1f} % of the rate, the rest being headers; "
        "a flat ring sends 2 (p - 1) / p of the bytes over a link, a hierarchical allreduce 2 (h - 1) / h"
    )


def ms_text(us: float) -> str:
    """Return milliseconds with three digits that count, or all before the point."""
    ms = us / _US_PER_MS
    return f"{ms:,.0f}" if ms >= 100 else f"{ms:.3g}"
