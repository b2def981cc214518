# SPDX-License-Identifier: Apache-2.0
"""Sensitivity: the effect of each parameter, and the slice of the model behind it."""

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from ringtune.tuner.review import Analysis, words
from ringtune.tuner.review.sensitivity import MAY_MATTER, Sensitivity
from ringtune.tuner.review.surrogate import SpeedUpInterval
from ringtune.tuner.space.config import Value
from ringtune.tuner.space.readable import readable_value

from .axes import ValueAxis
from .figure import BAND, BLUE, GREY, Figure, FigureTable, described, plain

BLUE_BAND = "rgba(59, 130, 196, 0.25)"
BAR_HEIGHT = 44
SLICE_HEIGHT = 260


def sensitivity_figure(analysis: Analysis) -> Figure | None:
    """Return the effects as bars with intervals, or None where none is known."""
    items = analysis.sensitivities
    if not items:
        return None
    effects = [item.effect for item in items]
    bars = go.Bar(
        y=[plain(item.name) for item in items],
        x=[100 * effect.fraction for effect in effects],
        error_x=error_bars(effects),
        orientation="h",
        marker={"color": [colour_of(item) for item in items]},
        hovertemplate="%{x:.1f} %<extra></extra>",
    )
    named = ", ".join(f"{item.name} {item.finding}" for item in items)
    return Figure(
        "sensitivity",
        "Sensitivity",
        f"{words.HOW} Grey: not known. {named}.",
        FigureTable.of(
            ("parameter", "effect", "best", "worst", "values tried", "finding"), [_sensitivity_row(i) for i in items]
        ),
        described(
            [bars],
            height=100 + BAR_HEIGHT * len(items),
            margin={"l": 180, "r": 16, "t": 16, "b": 56},
            xaxis={"title": {"text": "effect, %"}},
            yaxis={"autorange": "reversed"},
        ),
    )


def slice_figures(analysis: Analysis) -> list[Figure]:
    """Return a slice per parameter that varied, the most important first."""
    return [_slice_figure(item, number) for number, item in enumerate(analysis.sensitivities)]


def _sensitivity_row(item: Sensitivity) -> tuple[str, ...]:
    best, worst = readable_value(item.name, item.best), readable_value(item.name, item.worst)
    return (item.name, words.interval(item.effect), best, worst, str(item.tried), item.finding)


def _slice_figure(item: Sensitivity, number: int) -> Figure:
    shown = item.slice
    axis = ValueAxis(item.name, shown.values)
    pairs = sorted(zip(shown.values, shown.changes, strict=True), key=lambda pair: axis.position(pair[0]))
    rows = [(readable_value(item.name, value), words.interval(change)) for value, change in pairs]
    return Figure(
        f"slice-{number}",
        f"Slice over {item.name}",
        _slice_summary(item),
        FigureTable.of((item.name, "expected speed-up, 90 % interval"), rows),
        described(
            _slice_traces(axis, pairs, is_known=item.finding != MAY_MATTER),
            height=SLICE_HEIGHT,
            showlegend=False,
            xaxis=axis.layout(),
            yaxis={"title": {"text": "expected, %"}},
        ),
    )


def _slice_summary(item: Sensitivity) -> str:
    over = (
        "What the model expects over the config that the slice goes through, the other parameters as chosen, with 90 % "
        "intervals; nobody tested it."
    )
    if item.finding == MAY_MATTER:
        return f"{over} Grey: whether {item.name} matters is not known."
    best, worst = readable_value(item.name, item.best), readable_value(item.name, item.worst)
    return f"{over} Best at {best}, worst at {worst}."


def colour_of(item: Sensitivity) -> str:
    """Return a parameter's colour: grey where it is not known whether it matters."""
    return GREY if item.finding == MAY_MATTER else BLUE


def _slice_traces(axis: ValueAxis, pairs: Sequence[tuple[Value, SpeedUpInterval]], *, is_known: bool) -> list[Any]:
    """Return a line with a band over the numbers, and bars of error for values beside them."""
    colour, band = (BLUE, BLUE_BAND) if is_known else (GREY, BAND)
    line = [(axis.position(value), change) for value, change in pairs if axis.is_on_line(value)]
    beside = [(axis.position(value), change) for value, change in pairs if not axis.is_on_line(value)]
    points = go.Scatter(
        x=[x for x, _ in beside],
        y=[100 * change.fraction for _, change in beside],
        mode="markers",
        marker={"color": colour, "size": 9},
        error_y=error_bars([change for _, change in beside]),
    )
    return [*_line_with_band(line, colour, band), points]


def _line_with_band(line: Sequence[tuple[float, SpeedUpInterval]], colour: str, band_colour: str) -> list[Any]:
    if not line:
        return []
    x = [position for position, _ in line]
    band = go.Scatter(
        x=[*x, *reversed(x)],
        y=[*(100 * change.high for _, change in line), *(100 * change.low for _, change in reversed(line))],
        fill="toself",
        fillcolor=band_colour,
        mode="lines",
        line={"width": 0},
        hoverinfo="skip",
    )
    y = [100 * change.fraction for _, change in line]
    return [band, go.Scatter(x=x, y=y, mode="lines", line={"color": colour})]


def error_bars(changes: Sequence[SpeedUpInterval]) -> dict[str, Any]:
    """Return the changes' intervals as Plotly's error bars, in percent."""
    return {
        "type": "data",
        "symmetric": False,
        "color": GREY,
        "array": [100 * (change.high - change.fraction) for change in changes],
        "arrayminus": [100 * (change.fraction - change.low) for change in changes],
    }
