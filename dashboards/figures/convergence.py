# SPDX-License-Identifier: Apache-2.0
"""Convergence of the search: every window, the best config so far, and the band of the baseline's windows."""

import math
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import Any

import plotly.graph_objects as go

from ringtune.tuner.review import Analysis, RunReview, TriedSample, words
from ringtune.tuner.statistics.paired_test import CI_LEVEL
from ringtune.tuner.statistics.student_t import normal_quantile

from .figure import BAND, BLUE, GREEN, GREY, ORANGE, PURPLE, Figure, FigureTable, described, thinned

COLOURS = {"warmup": GREY, "baseline": ORANGE, "search": BLUE, "adoption": PURPLE, "watch": GREY}
BAND_STDS = normal_quantile(0.5 + CI_LEVEL / 2)
"""The band is as wide as the intervals of the paired tests."""

Point = tuple[int, TriedSample]
"""A window's place in the run, from 1, and the window."""


def convergence_figure(run: RunReview, analysis: Analysis) -> Figure:
    """Return the figure of a run's windows in their order, with the drift of its machine removed."""
    run = analysis.levelled.run
    points = [(number, sample) for number, sample in enumerate(run.tried, start=1) if sample.log_time is not None]
    unit = "step time, ms" if run.has_step_times else "score, MB/s"
    band = _band(run, len(run.tried))
    traces = [*band, *_windows(run, points), _best_so_far(run, analysis, points)]
    about_band = f" The band is where {CI_LEVEL:.0%} of the baseline's windows lie.".replace("%", " %") if band else ""
    return Figure(
        "convergence",
        "Convergence",
        f"{words.convergence(run, analysis)}.{about_band}{words.about_drift(analysis)} The line is the lowest median "
        "so far, lowered by chance and drift, too: the paired test decides. "
        f"Valid windows: {len(points)} of {len(run.tried)}.",
        _table(run),
        described(
            traces,
            xaxis={"title": {"text": "window"}, "zeroline": False},
            yaxis={"title": {"text": unit}, "zeroline": False},
        ),
    )


def _value(run: RunReview, log_time: float) -> float:
    return math.exp(log_time) if run.has_step_times else math.exp(-log_time) / 1e6


def _windows(run: RunReview, points: Sequence[Point]) -> list[Any]:
    traces = []
    for phase in dict.fromkeys(sample.phase for _, sample in points):
        shown = thinned([(number, sample) for number, sample in points if sample.phase == phase])
        traces.append(
            go.Scatter(
                x=[number for number, _ in shown],
                y=[_value(run, sample.log_time) for _, sample in shown],
                mode="markers",
                name=phase,
                marker={"color": COLOURS.get(phase, GREY), "size": 7, "symbol": "circle"},
                text=[f"trial {sample.trial_id}" for _, sample in shown],
            )
        )
    return traces


def _best_so_far(run: RunReview, analysis: Analysis, points: Sequence[Point]) -> Any:
    """Return the line of the best trial's median, by the windows at which it was taken over."""
    order = [number for number, sample in points if sample.phase in {"baseline", "search"}]
    x = [order[count - 1] for count, _ in analysis.improvements]
    y = [_value(run, trial.log_time) for _, trial in analysis.improvements if trial.log_time is not None]
    if x:
        x, y = [*x, len(run.tried)], [*y, y[-1]]
    return go.Scatter(
        x=x, y=y, mode="lines", name="lowest median so far", line={"color": GREEN, "width": 3, "shape": "hv"}
    )


def _band(run: RunReview, last: int) -> list[Any]:
    """Return the baseline's band; empty where it has too few windows."""
    times = [sample.log_time for sample in run.windows_of(run.baseline) if sample.log_time is not None]
    if len(times) < 2:
        return []
    middle, margin = fmean(times), BAND_STDS * stdev(times)
    low, high = (_value(run, middle + shift) for shift in (-margin, margin))
    edge = {"x": [1, last, last, 1], "y": [low, low, high, high]}
    level = _value(run, middle)
    return [
        go.Scatter(
            **edge,
            fill="toself",
            fillcolor=BAND,
            mode="lines",
            line={"width": 0},
            name="baseline, 90 %",
            hoverinfo="skip",
        ),
        go.Scatter(
            x=[1, last], y=[level, level], mode="lines", name="baseline, mean", line={"color": ORANGE, "dash": "dash"}
        ),
    ]


def _table(run: RunReview) -> FigureTable:
    rows = [
        (
            str(number),
            sample.phase,
            f"line {sample.line}" if sample.line else str(sample.trial_id),
            words.speed(run, sample.log_time),
            str(sample.steps) if sample.steps else "-",
            "yes" if sample.valid else f"no: {sample.reason}",
        )
        for number, sample in enumerate(run.tried, start=1)
    ]
    return FigureTable.of(("window", "phase", "trial", "measured", "steps", "counts"), rows)
