# SPDX-License-Identifier: Apache-2.0
"""The table of live runs: gain, steps and seconds spent, pay-back, by scheme and paired."""

import sys
from collections.abc import Mapping, Sequence
from statistics import fmean, median, stdev
from typing import Any

from rich.console import Console
from rich.table import Table

from ringtune.tuner.statistics.student_t import student_t_quantile

from .schemes import HOROVOD, RINGTUNE, SCHEMES

Row = Mapping[str, Any]
CONFIDENCE = 0.95


def render(rows: Sequence[Row], where: str) -> None:
    """Print the tables."""
    console = Console(width=None if sys.stdout.isatty() else 200)
    console.print(scheme_table(rows, where))
    console.print(run_table(rows))
    by_run = {(row["scheme"], row["seed"]): row["speedup"] for row in rows}
    seeds = sorted({seed for _, seed in by_run})
    ahead = [
        by_run[RINGTUNE, seed] - by_run[HOROVOD, seed] for seed in seeds if all((s, seed) in by_run for s in SCHEMES)
    ]
    if ahead:
        console.print(f"ringtune's gain less Horovod's, in points, by run: {interval_text(ahead)}")


def scheme_table(rows: Sequence[Row], where: str) -> Table:
    """Return a row per scheme."""
    table = Table(title=f"Live tuning: {where}, two hosts", title_justify="left")
    table.add_column("scheme")
    headings = ("runs", "changed", "gain, 95 % interval over runs", "steps", "seconds", "cost, s", "pay-back, steps")
    for heading in headings:
        table.add_column(heading, justify="right")
    for scheme in SCHEMES:
        if found := [row for row in rows if row["scheme"] == scheme]:
            table.add_row(scheme, *_summary(found))
    return table


def _summary(rows: Sequence[Row]) -> tuple[str, ...]:
    """Return the cells of one scheme."""
    paybacks = [row["payback_steps"] for row in rows if row["payback_steps"] is not None]
    steps, seconds, cost_s = (median(row[name] for row in rows) for name in ("steps", "seconds", "cost_s"))
    return (
        str(len(rows)),
        str(sum(row["is_changed"] for row in rows)),
        interval_text([row["speedup"] for row in rows]),
        f"{steps:.0f}",
        f"{seconds:.0f}",
        f"{cost_s:+.1f}",
        f"{median(paybacks):.0f}" if paybacks else "-",
    )


def run_table(rows: Sequence[Row]) -> Table:
    """Return a row per run."""
    table = Table(title="By run", title_justify="left")
    for heading in ("run", "scheme", "gain, 95 % interval", "steps", "seconds", "cost, s", "pay-back", "baseline, ms"):
        table.add_column(heading, justify="left" if heading == "scheme" else "right")
    for row in sorted(rows, key=lambda row: (row["seed"], row["scheme"])):
        table.add_row(
            str(row["seed"]),
            row["scheme"],
            f"{100 * row['speedup']:+.1f} % ({100 * row['low']:+.1f} to {100 * row['high']:+.1f})",
            str(row["steps"]),
            f"{row['seconds']:.0f}",
            f"{row['cost_s']:+.1f}",
            "-" if row["payback_steps"] is None else str(row["payback_steps"]),
            f"{row['baseline_ms']:.1f}",
        )
    return table


def interval_text(values: Sequence[float]) -> str:
    """Return mean and interval (Student's t) of fractions, in percent; of one value no interval."""
    if len(values) < 2:
        return f"{100 * fmean(values):+.1f} %"
    quantile = student_t_quantile(len(values) - 1, 0.5 + CONFIDENCE / 2)
    margin = quantile * stdev(values) / len(values) ** 0.5
    mean, low, high = (100 * (fmean(values) + offset) for offset in (0.0, -margin, margin))
    return f"{mean:+.1f} % ({low:+.1f} to {high:+.1f})"
