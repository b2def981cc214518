# SPDX-License-Identifier: Apache-2.0
"""A figure as the report and the web pages show it: Plotly's description, its message in a sentence, and its table.

Duty: the common part of all figures. Colours of text and grid are left to the page, which knows its theme.
Only traces that are drawn as SVG or canvas are used: Plotly's WebGL traces compile code at run time, which a strict
content security policy forbids, and they do not print.
"""

import html
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import plotly.graph_objects as go

BLUE, ORANGE, GREEN, RED, PURPLE, GREY = "#3b82c4", "#d9822b", "#3a9d5d", "#d1495b", "#8b6fc0", "#8a8f98"
"""Told apart by people who do not see all colours, and legible on white and on near black."""
BAND = "rgba(138, 143, 152, 0.25)"
TRANSPARENT = "rgba(0, 0, 0, 0)"
MAX_POINTS = 2000
"""Drawn in one trace; of more, so many evenly spaced ones."""
MAX_ROWS = 500
"""Maximum rows of a table."""
MAX_TEXT = 80
DEFAULT_HEIGHT = 380


@dataclass(frozen=True)
class FigureTable:
    """The numbers behind a figure, as people read them; `left_out` rows are too many to show."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left_out: int = 0

    @classmethod
    def of(cls, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> "FigureTable":
        """Return a table of the first rows."""
        shown = tuple(tuple(row) for row in rows[:MAX_ROWS])
        return cls(tuple(columns), shown, len(rows) - len(shown))


@dataclass(frozen=True)
class Figure:
    """One figure.

    Attributes:
        name: Names it within a page; letters, digits, hyphens.
        title: A heading.
        summary: The figure's message in a sentence or two: its text alternative.
        table: The numbers.
        plot: `data` and `layout` for Plotly, ready for `json.dumps`.
    """

    name: str
    title: str
    summary: str
    table: FigureTable
    plot: dict[str, Any] = field(repr=False)


def plain(text: object) -> str:
    """Return text that Plotly shows as it is: it would take angle brackets for tags."""
    shown = str(text)
    return html.escape(shown if len(shown) <= MAX_TEXT else f"{shown[: MAX_TEXT - 1]}…", quote=False)


def described(traces: Sequence[Any], *, height: int = DEFAULT_HEIGHT, **layout: Any) -> dict[str, Any]:
    """Return Plotly's description of traces, in the house's layout.

    Args:
        traces: Traces of `plotly.graph_objects`.
        height: In pixels.
        layout: Additions to the figure's layout.
    """
    common = {
        "template": go.layout.Template(),
        "height": height,
        "margin": {"l": 64, "r": 16, "t": 16, "b": 56},
        "paper_bgcolor": TRANSPARENT,
        "plot_bgcolor": TRANSPARENT,
        "hovermode": "closest",
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
    }
    described_figure: dict[str, Any] = json.loads(go.Figure(list(traces), {**common, **layout}).to_json())
    return described_figure


def thinned(items: Sequence[Any]) -> list[Any]:
    """Return the items, or evenly spaced ones where they are too many to draw."""
    if len(items) <= MAX_POINTS:
        return list(items)
    return [items[index * len(items) // MAX_POINTS] for index in range(MAX_POINTS)]
