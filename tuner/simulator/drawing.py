# SPDX-License-Identifier: Apache-2.0
"""Forecast in a terminal: the gain of tuning, the curves, and the surface as a map of letters and colours."""

import math

from rich.console import Console
from rich.style import Style
from rich.table import Table
from rich.text import Text

from ringtune.system.counts import counted
from ringtune.tuner.space.readable import readable_size, readable_value

from .forecast import Curve, Forecast, StepSurface

BARS = "▁▂▃▄▅▆▇█"
"""Bars of a curve, from its shortest step to its longest."""
LETTERS = "ABCDEFGHIJ"
COLOURS = ("#1a9850", "#66bd63", "#a6d96a", "#d9ef8b", "#ffffbf", "#fee08b", "#fdae61", "#f46d43", "#d73027", "#a50026")
"""Colours of the letters, from green to red; they also differ in lightness."""
BOUNDS = (1.01, 1.02, 1.05, 1.1, 1.2, 1.35, 1.6, 2.0, 3.0)
"""Upper bounds of the letters A to I, as multiples of the map's shortest step; a longer step is J."""
CELL_WIDTH = 5


def render_forecast(answer: Forecast, console: Console) -> None:
    """Print a forecast."""
    cluster = answer.cluster
    link = f", {cluster.link.name} each" if cluster.hosts > 1 else ""
    console.print(
        Text(
            f"{answer.model}: {answer.tensors} gradients, {readable_size(answer.bytes)}, {answer.compute_ms:.4g} ms of "
            f"computing; {cluster.hosts} x {counted(cluster.ranks_per_host, 'rank')}, "
            f"{counted(cluster.cores_per_host, 'core')} a host{link}",
            style="bold",
        )
    )
    console.print(_summary(answer))
    gain = f"{100.0 * answer.speedup:+.1f} %" if answer.speedup >= 0.001 else "nothing"
    console.print(Text(f"Tuning could gain {gain}; the simulation is without noise, and no measurement."))
    console.print(_curves(answer))
    if answer.surface is not None:
        console.print(draw_surface(answer.surface))
        console.print(_legend())


def _summary(answer: Forecast) -> Table:
    table = _table("", "baseline", "best found")
    both = (answer.baseline, answer.best)
    table.add_row("step ms", *(f"{one.step_ms:.2f}" for one in both))
    table.add_row("communicating ms", *(f"{one.communication_ms:.2f}" for one in both))
    table.add_row("of the step, exposed", *(f"{100.0 * one.exposed_share:.1f} %" for one in both))
    table.add_row("messages", *(str(one.responses) for one in both))
    for name in (curve.name for curve in answer.curves):
        table.add_row(name, *(readable_value(name, one.config[name]) for one in both))
    return table


def _curves(answer: Forecast) -> Table:
    table = _table("along", "from", "step ms, shortest to longest", "to", "best", "worst / best")
    for curve in answer.curves:
        low, high = min(curve.step_ms), max(curve.step_ms)
        best = curve.values[curve.step_ms.index(low)]
        ends = [readable_value(curve.name, value) for value in (curve.values[0], curve.values[-1])]
        worst = f"{high / low:.2f}"
        table.add_row(curve.name, ends[0], draw_curve(curve), ends[1], readable_value(curve.name, best), worst)
    return table


def draw_curve(curve: Curve) -> str:
    """Return a bar per value, on a logarithmic scale whose full height spans at least 1 %."""
    low, high = math.log(min(curve.step_ms)), math.log(max(curve.step_ms))
    height = max(high - low, 0.01)
    return "".join(BARS[round((math.log(time) - low) / height * (len(BARS) - 1))] for time in curve.step_ms)


def letter_of(step_ms: float, shortest_ms: float) -> str:
    """Return the letter of a cell: A up to 1 % above the map's shortest step, J above three times the shortest."""
    return LETTERS[sum(step_ms > bound * shortest_ms for bound in BOUNDS)]


def draw_surface(surface: StepSurface) -> Table:
    """Return the map, with fusion_bytes downwards and cycle_ms to the right."""
    shortest_ms = min(min(row) for row in surface.step_ms)
    table = Table(box=None, pad_edge=False, padding=(0, 0), title="fusion_bytes by cycle_ms", title_justify="left")
    table.add_column("", justify="right", no_wrap=True)
    for value in surface.columns:
        table.add_column(Text(f"{value:.2g}".center(CELL_WIDTH)))
    for value, times in zip(surface.rows, surface.step_ms, strict=True):
        cells = (_patch(letter_of(time, shortest_ms), CELL_WIDTH) for time in times)
        table.add_row(f"{readable_value('fusion_bytes', value)} ", *cells)
    return table


def _legend() -> Text:
    text = Text("of the shortest step: ")
    for letter, bound in zip(LETTERS, BOUNDS, strict=False):
        text.append_text(_patch(letter, 1)).append(f" to {100.0 * (bound - 1.0):.0f} % ")
    return text.append_text(_patch(LETTERS[-1], 1)).append(" more")


def _patch(letter: str, width: int) -> Text:
    colour = COLOURS[LETTERS.index(letter)]
    ink = "white" if letter in "IJ" else "black"
    return Text(letter.center(width), style=Style.parse(f"{ink} on {colour}"))


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column)
    return table
