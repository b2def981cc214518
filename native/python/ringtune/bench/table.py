# SPDX-License-Identifier: Apache-2.0
"""The table of `ringtune bench`: a section per size, a line per way."""

from collections.abc import Sequence

from rich.table import Table

from .results import Comparison, Summary

_KIB = 1024


def make_table(summaries: Sequence[Summary], ranks: int, rounds: int) -> Table:
    """Return the table.

    Args:
        summaries: By size.
        ranks: Number of ranks.
        rounds: Number of rounds.
    """
    table = Table(title=f"float32 sum allreduce, {ranks} ranks, {rounds} rounds")
    for heading in ("size", "way"):
        table.add_column(heading)
    for heading in ("us", "p99 us", "÷ best peer", "÷ limit"):
        table.add_column(heading, justify="right", no_wrap=True)
    previous = 0
    for summary in summaries:
        is_first = summary.bytes != previous
        if is_first and previous:
            table.add_section()
        previous = summary.bytes
        table.add_row(
            size_text(summary.bytes) if is_first else "",
            summary.way,
            time_text(summary.us_median),
            time_text(summary.us_p99),
            comparison_text(summary.to_best_peer),
            comparison_text(summary.to_limit),
        )
    return table


def size_text(size_bytes: int) -> str:
    """Return a size as people write it, exactly."""
    for unit, factor in (("MiB", _KIB * _KIB), ("KiB", _KIB)):
        if size_bytes % factor == 0:
            return f"{size_bytes // factor} {unit}"
    return f"{size_bytes} B"


def time_text(us: float) -> str:
    """Return microseconds with three digits that count, or all before the point."""
    return f"{us:,.0f}" if us >= 100 else f"{us:.3g}"


def comparison_text(comparison: Comparison | None) -> str:
    """Return a ratio, with its interval where there is one."""
    if comparison is None:
        return ""
    if comparison.interval is None:
        return ratio_text(comparison.median)
    low, high = comparison.interval.low, comparison.interval.high
    return f"{ratio_text(comparison.median)} ({ratio_text(low)}-{ratio_text(high)})"


def ratio_text(ratio: float) -> str:
    """Return a ratio with two decimals, with fewer where it is large, with two digits that count where it is small."""
    if ratio >= 10:
        return f"{ratio:,.0f}"
    return f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.2g}"
