# SPDX-License-Identifier: Apache-2.0
"""Several studies side by side: their speed-ups with intervals, and the step times behind them."""

from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from ringtune.tuner.review import words
from ringtune.tuner.review.surrogate import SpeedUpInterval

from .effects import error_bars
from .figure import BLUE, ORANGE, Figure, FigureTable, described, plain

BAR_HEIGHT = 48
NO_VALUE = "-"


@dataclass(frozen=True)
class Compared:
    """One of several: a name that differs from the others', and its facts.

    Attributes:
        name: For people.
        speedup: Confirmed, of a config over the baseline as a fraction with its interval, or None.
        baseline_ms: Step time under the baseline, or None.
    """

    name: str
    speedup: SpeedUpInterval | None
    baseline_ms: float | None

    @property
    def best_ms(self) -> float | None:
        """The step time that the speed-up means."""
        if self.baseline_ms is None or self.speedup is None:
            return None
        return self.baseline_ms / (1.0 + self.speedup.fraction)


def speedups_figure(items: Sequence[Compared]) -> Figure | None:
    """Return the speed-ups as bars with intervals, or None where none is known."""
    known = [(item, item.speedup) for item in items if item.speedup is not None]
    if not known:
        return None
    changes = [change for _, change in known]
    bars = go.Bar(
        y=[plain(item.name) for item, _ in known],
        x=[100 * change.fraction for change in changes],
        error_x=error_bars(changes),
        orientation="h",
        marker={"color": BLUE},
        text=[words.percent(change.fraction) for change in changes],
        textposition="inside",
        insidetextanchor="start",
        hovertemplate="%{x:.1f} %<extra></extra>",
    )
    return Figure(
        "speedups",
        "Confirmed speed-ups",
        "Over each one's own baseline, with 90 % intervals. Intervals that overlap leave open which is larger.",
        FigureTable.of(
            ("what", "confirmed speed-up, 90 % interval"),
            [(item.name, words.interval(change)) for item, change in known],
        ),
        _horizontal([bars], len(known), "speed-up, %"),
    )


def step_times_figure(items: Sequence[Compared]) -> Figure | None:
    """Return step times under the baseline and under the confirmed config, or None where none is known."""
    known = [item for item in items if item.baseline_ms is not None]
    if not known:
        return None
    names = [plain(item.name) for item in known]
    rows = [(item.name, _milliseconds(item.baseline_ms), _milliseconds(item.best_ms)) for item in known]
    timed = {
        "baseline": (ORANGE, [item.baseline_ms for item in known]),
        "confirmed config": (BLUE, [item.best_ms for item in known]),
    }
    bars = [_labelled(names, label, colour, values) for label, (colour, values) in timed.items() if any(values)]
    return Figure(
        "step-times",
        "Step times",
        "Under the baseline, the geometric mean of windows and jobs, and what a confirmed speed-up makes of them.",
        FigureTable.of(("what", "baseline", "confirmed config"), rows),
        _horizontal(bars, len(bars) * len(known), "step, ms"),
    )


def _labelled(names: Sequence[str], label: str, colour: str, values: Sequence[float | None]) -> go.Bar:
    """Return bars of step times, each with its number."""
    texts = [_milliseconds(value) for value in values]
    marker = {"color": colour}
    return go.Bar(y=names, x=values, name=label, orientation="h", marker=marker, text=texts, textposition="auto")


def _horizontal(bars: Sequence[go.Bar], count: int, title: str) -> dict[str, object]:
    return described(
        bars,
        height=110 + BAR_HEIGHT * count,
        margin={"l": 8, "r": 16, "t": 32, "b": 56},
        xaxis={"title": {"text": title}},
        yaxis={"autorange": "reversed", "automargin": True},
    )


def _milliseconds(value: float | None) -> str:
    return NO_VALUE if value is None else f"{value:.2f} ms"
