# SPDX-License-Identifier: Apache-2.0
"""Tables of live runs: gains and costs by cell, and the map of gains by delay and rate."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import plotly.graph_objects as go
from rich.console import Console
from rich.table import Table

from .cells import DELAYS_MS, RATES
from .task import HOROVOD, RINGTUNE

Row = Mapping[str, Any]
JOB_S = 600.0
"""Length of the job whose total times are compared, without tuning."""
FIGURE_PX = (640, 420)


def render(rows: Sequence[Row], console: Console) -> None:
    """Print the tables."""
    console.print(cell_table(rows))
    console.print(gain_map(rows))


def total_change(row: Row) -> float:
    """Return by which fraction of its time a job of ten minutes is longer with tuning; below zero where shorter.

    The job has as many steps as the baseline takes in ten minutes. Steps after the decision have the measured gain, and
    the search costs the time that was lost to slower configs.
    """
    rest_s = max(0.0, JOB_S - float(row["steps"]) * float(row["gain"]["baseline_ms"]) * 1e-3)
    return (float(row["cost_s"]) - rest_s * (1 - 1 / (1 + adopted_gain(row)))) / JOB_S


def adopted_gain(row: Row) -> float:
    """Return the gain of a run; 0 where the default was kept, whose windows beside its own differ by noise alone."""
    return float(row["gain"]["speedup"]) if row["adopted"] else 0.0


def cell_table(rows: Sequence[Row]) -> Table:
    """Return a row per cell and seed."""
    table = Table(title="Live jobs", title_justify="left")
    for heading in ("cell", "step, ms", "changed", "gain, 95 %", "decided, s", "lost, s", "10 min", "best found, 95 %"):
        table.add_column(heading, justify="left" if heading in {"cell", "changed"} else "right")
    table.add_column("Horovod's", justify="right")
    rivals = {(row["cell"], row["seed"]): row for row in rows if row["scheme"] == HOROVOD}
    for row in rows:
        if row["scheme"] == RINGTUNE:
            rival = rivals.get((row["cell"], row["seed"]))
            table.add_row(*_cells(row), "-" if rival is None else gain_text(rival["gain"]))
    return table


def _cells(row: Row) -> tuple[str, ...]:
    """Return the cells of a run, without its rival's."""
    best = row.get("best")
    return (
        row["cell"],
        f"{row['gain']['baseline_ms']:.1f}",
        changes(row, row["gain"]) if row["adopted"] else "-",
        gain_text(row["gain"]) if row["adopted"] else "-",
        f"{row['seconds']:.0f}",
        f"{row['cost_s']:+.1f}",
        f"{100 * total_change(row):+.1f} %",
        "-" if best is None else f"{gain_text(best)} {changes(row, best)}",
    )


def gain_text(gain: Row) -> str:
    """Return a gain with its interval, in percent."""
    speedup, low, high = (100 * float(gain[name]) for name in ("speedup", "low", "high"))
    return f"{speedup:+.1f} ({low:+.1f} to {high:+.1f})"


def changes(row: Row, gain: Row) -> str:
    """Return the knobs of a gain's config that differ from the baseline's."""
    config = gain["config"] or {}
    return " ".join(f"{knob}={value}" for knob, value in config.items() if value != row["baseline"].get(knob))


def gains_at(rows: Sequence[Row], delay_ms: float, link: str) -> list[float]:
    """Return the gains of ringtune's runs between two plain hosts, in percent."""
    end = f", engine, 1+1, {link}, {delay_ms:g} ms"
    plain = [row for row in rows if row["scheme"] == RINGTUNE and row["cell"].endswith(end)]
    return [100 * adopted_gain(row) for row in plain]


def gain_map(rows: Sequence[Row]) -> Table:
    """Return the mean gain of ringtune's runs by delay and rate, between two plain hosts."""
    table = Table(title="Mean gain by delay and rate, %", title_justify="left")
    for heading in ("delay", *RATES):
        table.add_column(heading, justify="right")
    for delay_ms in DELAYS_MS:
        by_rate = [gains_at(rows, delay_ms, link) for link in RATES]
        cells = [f"{fmean(gains):+.1f} ({len(gains)})" if gains else "-" for gains in by_rate]
        table.add_row(f"{delay_ms:g} ms", *cells)
    return table


def gain_figure(rows: Sequence[Row]) -> go.Figure:
    """Return the same as a picture."""
    found = [[gains_at(rows, delay_ms, link) for link in RATES] for delay_ms in DELAYS_MS]
    means = [[fmean(gains) if gains else None for gains in row] for row in found]
    texts = [["" if mean is None else f"{mean:+.1f} %" for mean in row] for row in means]
    delays = [f"{delay_ms:g} ms" for delay_ms in DELAYS_MS]
    heat = go.Heatmap(
        x=list(RATES), y=delays, z=means, text=texts, texttemplate="%{text}", colorscale="Greens", zmin=0.0
    )
    figure = go.Figure(heat)
    figure.update_layout(
        title="Steps per second with AUTOTUNE=1, over the default",
        xaxis_title="rate of each link",
        yaxis_title="delay between two hosts",
        template="plotly_white",
        width=FIGURE_PX[0],
        height=FIGURE_PX[1],
    )
    return figure
