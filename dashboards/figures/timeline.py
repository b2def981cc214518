# SPDX-License-Identifier: Apache-2.0
"""The run on its clock: windows by phase, void ones marked, and the designer at work."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from ringtune.system.counts import counted
from ringtune.tuner.review import RunReview, TriedSample
from ringtune.tuner.review.summary import Thought

from .convergence import COLOURS
from .figure import BLUE, GREEN, RED, Figure, FigureTable, described, plain, thinned

DESIGNER, VOID = "designer", "void"
ROW_HEIGHT = 40


@dataclass(frozen=True)
class Span:
    """Something that took time: from `begin_s`, for `seconds`."""

    row: str
    begin_s: float
    seconds: float
    text: str
    steps: int = 0


def timeline_figure(run: RunReview) -> Figure | None:
    """Return the spans of a run, or None where its log has no times."""
    spans = _spans(run)
    if not run.seconds or not spans:
        return None
    rows = list(dict.fromkeys(span.row for span in spans))
    return Figure(
        "timeline",
        "Timeline of the run",
        f"{_counts(run)}. A window's bar begins where the one before ended, and so includes the steps that settle "
        "after a switch.",
        FigureTable.of(("what", "times", "steps", "seconds"), [_row(row, spans) for row in rows]),
        described(
            [_bars(row, thinned([span for span in spans if span.row == row])) for row in rows],
            height=120 + ROW_HEIGHT * len(rows),
            showlegend=False,
            barmode="overlay",
            margin={"l": 90, "r": 16, "t": 16, "b": 56},
            xaxis={"title": {"text": "seconds since the run began"}, "zeroline": False},
            yaxis={"autorange": "reversed"},
        ),
    )


def _counts(run: RunReview) -> str:
    """Return the number of windows and their time until the decision, and those of the watch after it."""
    later = [sample for sample in run.tried if sample.t_s > run.seconds]
    text = f"{counted(len(run.tried) - len(later), 'window')} in {run.seconds:.0f} s"
    if not run.is_complete or not later:
        return text
    return f"{text} until the decision, and {len(later)} of the watch after it, until {later[-1].t_s:.0f} s"


def _bars(row: str, spans: Sequence[Span]) -> Any:
    colour = {DESIGNER: GREEN, VOID: RED}.get(row, COLOURS.get(row, BLUE))
    return go.Bar(
        y=[row] * len(spans),
        x=[span.seconds for span in spans],
        base=[span.begin_s for span in spans],
        orientation="h",
        marker={"color": colour, "line": {"width": 0.5, "color": "#000000"}},
        text=[plain(span.text) for span in spans],
        textposition="none",
        hovertemplate="%{text}<br>%{base:.1f} s, for %{x:.2f} s<extra></extra>",
    )


def _spans(run: RunReview) -> list[Span]:
    """Return the spans in the order in which they ended; each window reaches back to the end of the one before."""
    spans: list[Span] = []
    events: list[TriedSample | Thought] = sorted([*run.tried, *run.thoughts], key=lambda event: event.t_s)
    before_s = 0.0
    for event in events:
        if isinstance(event, Thought):
            seconds = event.ask_ms * 1e-3
            text = f"{event.designer} for trial {event.trial_id}"
            spans.append(Span(DESIGNER, event.t_s - seconds, seconds, text))
        else:
            row, reason = (event.phase, "") if event.valid else (VOID, f", {event.reason}")
            text = f"trial {event.trial_id}{reason}"
            spans.append(Span(row, before_s, event.t_s - before_s, text, event.steps))
        before_s = event.t_s
    return spans


def _row(row: str, spans: Sequence[Span]) -> tuple[str, ...]:
    mine = [span for span in spans if span.row == row]
    steps, seconds = sum(span.steps for span in mine), sum(span.seconds for span in mine)
    return (row, str(len(mine)), str(steps) if steps else "-", f"{seconds:.1f}")
