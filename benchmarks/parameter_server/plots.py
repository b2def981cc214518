# SPDX-License-Identifier: Apache-2.0
"""Pages with the comparison's figures: examples per second by workers, and loss over time."""

from collections.abc import Sequence
from pathlib import Path
from statistics import median

import plotly.graph_objects as go

from .claims import Cell, Claims
from .plan import SINGLE_WAYS, SLOW_WORKERS, SLOWDOWN, WAYS, WORKERS
from .rows import Row
from .tables import PLACE_NAMES, name_of
from .trial import ONE_HOST

HEIGHT_PX = 480
POINTS = 40
"""Points of a curve, at each of which the median over rounds is taken."""


def write_plots(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Write the pages that these rows fill, readable without a network; return them.

    Args:
        rows: Rows of a comparison.
        folder: Made if it is not there; plotly's script is put beside the pages, once.
    """
    folder.mkdir(parents=True, exist_ok=True)
    claims = Claims(rows)
    pages = []
    for place in dict.fromkeys(row.place for row in rows):
        stem = place.replace(" ", "_")
        pages.append(_page(folder / f"rates_{stem}.html", rate_figure(claims, place)))
        for slowdown, case in ((1.0, "equal"), (SLOWDOWN, "one_slow")):
            figure = loss_figure(claims, place, slowdown)
            if figure.data:
                pages.append(_page(folder / f"loss_{stem}_{case}.html", figure))
    return pages


def rate_figure(claims: Claims, place: str) -> go.Figure:
    """Return examples per second over the number of workers, a line per way; bars span the rounds."""
    figure = _figure(f"Examples per second, {PLACE_NAMES[place]}", "workers", "examples/s")
    for way, servers in SINGLE_WAYS if place == ONE_HOST else WAYS:
        found = {n: [row.examples_per_s for row in claims.of(Cell(way, servers, n, place))] for n in WORKERS}
        kept = {workers: rates for workers, rates in found.items() if rates}
        centers = [median(rates) for rates in kept.values()]
        above = [max(rates) - center for rates, center in zip(kept.values(), centers, strict=True)]
        below = [center - min(rates) for rates, center in zip(kept.values(), centers, strict=True)]
        bars = {"type": "data", "array": above, "arrayminus": below}
        figure.add_trace(go.Scatter(x=list(kept), y=centers, error_y=bars, name=name_of(way, servers)))
    figure.update_xaxes(tickvals=list(WORKERS))
    return figure


def loss_figure(claims: Claims, place: str, slowdown: float) -> go.Figure:
    """Return the loss over time with 4 workers, a line per way: medians over rounds."""
    case = "equal workers" if slowdown == 1.0 else f"one worker {slowdown:g} times slower"
    figure = _figure(f"Loss over time, {SLOW_WORKERS} workers, {case}, {PLACE_NAMES[place]}", "seconds", "loss")
    for way, servers in SINGLE_WAYS:
        rows = claims.of(Cell(way, servers, SLOW_WORKERS, place, slowdown))
        if rows:
            times = [rows[0].seconds * number / POINTS for number in range(POINTS + 1)]
            losses = [median(row.loss_after(time, 0) for row in rows) for time in times]
            figure.add_trace(go.Scatter(x=times, y=losses, name=name_of(way, servers), mode="lines"))
    figure.update_yaxes(type="log")
    return figure


def _figure(title: str, x: str, y: str) -> go.Figure:
    figure = go.Figure()
    figure.update_layout(title=title, xaxis_title=x, yaxis_title=y, height=HEIGHT_PX, template="plotly_white")
    return figure


def _page(path: Path, figure: go.Figure) -> Path:
    figure.write_html(path, include_plotlyjs="directory")
    return path
