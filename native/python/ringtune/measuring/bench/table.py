# SPDX-License-Identifier: Apache-2.0
"""The tables of `ringtune bench`, of sizes and of workloads: a section per subject, a line per way."""

from collections.abc import Sequence

from rich.table import Table

from ringtune.system.counts import counted

from .results import PairedRatio, Summary

_KIB = 1024


def make_tables(summaries: Sequence[Summary], ranks: int, rounds: int) -> list[Table]:
    """Return one table for sizes, in microseconds, and one for workloads, in milliseconds; those that have lines.

    Args:
        summaries: Summaries by subject.
        ranks: Number of ranks.
        rounds: Number of rounds.
    """
    what = f"{counted(ranks, 'rank')}, {counted(rounds, 'round')}"
    sizes = [summary for summary in summaries if not summary.workload]
    steps = [summary for summary in summaries if summary.workload]
    tables = []
    if sizes:
        tables.append(_table(f"float32 sum allreduce, {what}", ("size", "us"), sizes, 1.0))
    if steps:
        tables.append(_table(f"steps of float32 gradients, summed, {what}", ("workload", "ms"), steps, 1e-3))
    return tables


def _table(title: str, headings: tuple[str, str], summaries: Sequence[Summary], unit_per_us: float) -> Table:
    """Return one table; `headings` are those of the subject and of the unit."""
    subject_heading, unit = headings
    table = Table(title=title)
    for heading in (subject_heading, "way"):
        table.add_column(heading)
    for heading in (unit, f"p99 {unit}", "÷ best peer", "÷ limit"):
        table.add_column(heading, justify="right", no_wrap=True)
    previous = ""
    for summary in summaries:
        subject = subject_text(summary.workload, summary.bytes)
        is_first = subject != previous
        if is_first and previous:
            table.add_section()
        previous = subject
        table.add_row(
            subject if is_first else "",
            summary.way,
            time_text(summary.us_median * unit_per_us),
            time_text(summary.us_p99 * unit_per_us),
            comparison_text(summary.to_best_peer),
            comparison_text(summary.to_limit),
        )
    return table


def subject_text(workload: str, size_bytes: int) -> str:
    """Return a size, where `workload` is empty, or a workload and its size, for a heading."""
    if not workload:
        return size_text(size_bytes)
    return f"{workload}, {size_bytes / _KIB / _KIB:.3g} MiB"


def size_text(size_bytes: int) -> str:
    """Return a size as people write it, exactly."""
    for unit, factor in (("MiB", _KIB * _KIB), ("KiB", _KIB)):
        if size_bytes % factor == 0:
            return f"{size_bytes // factor} {unit}"
    return f"{size_bytes} B"


def time_text(time: float) -> str:
    """Return a time with three digits that count, or all before the point."""
    return f"{time:,.0f}" if time >= 100 else f"{time:.3g}"


def comparison_text(comparison: PairedRatio | None) -> str:
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
