# SPDX-License-Identifier: Apache-2.0
"""Parallel coordinates: one line per trial through an axis per parameter, and through its measurements."""

import math
from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go
from plotly.colors import sample_colorscale

from ringtune.tuner.review import Analysis, RunReview, words
from ringtune.tuner.review.analysis import TrialReview
from ringtune.tuner.review.table import varied_names
from ringtune.tuner.space.readable import readable_value

from .axes import ValueAxis
from .figure import GREEN, GREY, ORANGE, Figure, FigureTable, described, plain

MAX_LINES = 150
SCALE = "Viridis"
MEASURED = "measured"


def parallel_figure(run: RunReview, analysis: Analysis) -> Figure | None:
    """Return the trials as lines, or None where no parameter varied."""
    trials = [trial for trial in analysis.trials if trial.log_time is not None]
    names = varied_names(trials)
    if len(trials) < 2 or not names:
        return None
    shown = trials if len(trials) <= MAX_LINES else sorted(trials, key=_time)[:MAX_LINES]
    axes = [ValueAxis(name, [trial.config[name] for trial in shown if name in trial.config]) for name in names]
    return Figure(
        "parallel",
        "Parallel coordinates",
        "Each line is a config: bright lines are fast, dark ones slow; the thick line is the chosen config, the dashed "
        f"one the baseline. The last axis is what was measured, the best at the top. {len(shown)} of {len(trials)} "
        "configs are drawn.",
        FigureTable.of(("trial", *names, MEASURED), [_row(run, trial, names) for trial in trials]),
        described(
            _lines(run, shown, axes),
            height=440,
            showlegend=False,
            xaxis=_axis([*names, MEASURED]),
            yaxis={"visible": False, "range": [-0.05, 1.05]},
            margin={"l": 24, "r": 90, "t": 56, "b": 16},
            annotations=_tick_labels(axes, run, shown),
        ),
    )


def _row(run: RunReview, trial: TrialReview, names: Sequence[str]) -> tuple[str, ...]:
    values = (readable_value(name, trial.config.get(name)) for name in names)
    return (words.name_of(trial), *values, words.speed(run, trial.log_time))


def _axis(labels: Sequence[str]) -> dict[str, Any]:
    ticks = {"tickvals": list(range(len(labels))), "ticktext": [plain(label) for label in labels]}
    return {**ticks, "range": [-0.3, len(labels) - 0.7], "side": "top"}


def _lines(run: RunReview, trials: Sequence[TrialReview], axes: Sequence[ValueAxis]) -> list[Any]:
    """Return a line per trial, coloured by its rank, the chosen one on top."""
    ranked = [(trial, index / (len(trials) - 1)) for index, trial in enumerate(sorted(trials, key=_time))]
    ranked.sort(key=lambda pair: pair[0].config == run.chosen)
    return [_line(run, trial, axes, rank) for trial, rank in ranked]


def _time(trial: TrialReview) -> float:
    return math.inf if trial.log_time is None else trial.log_time


def _line(run: RunReview, trial: TrialReview, axes: Sequence[ValueAxis], rank: float) -> Any:
    y = [axis.position(trial.config.get(axis.name, "")) for axis in axes]
    is_chosen, is_baseline = trial.config == run.chosen, trial.config == run.baseline
    colour = GREEN if is_chosen else ORANGE if is_baseline else sample_colorscale(SCALE, [1.0 - rank])[0]
    return go.Scatter(
        x=list(range(len(axes) + 1)),
        y=[*y, 1.0 - rank],
        mode="lines",
        line={"color": colour, "width": 4 if is_chosen else 2, "dash": "dash" if is_baseline else "solid"},
        opacity=1.0 if is_chosen or is_baseline else 0.7,
        text=f"{words.name_of(trial)}: {words.speed(run, trial.log_time)}",
        hoverinfo="text",
    )


def _tick_labels(axes: Sequence[ValueAxis], run: RunReview, trials: Sequence[TrialReview]) -> list[dict[str, Any]]:
    labels = []
    for number, axis in enumerate(axes):
        positions, texts = axis.ticks()
        labels += [_label(number, y, text) for y, text in zip(positions, texts, strict=True)]
    times = sorted(_time(trial) for trial in trials)
    labels += [_label(len(axes), 1.0, words.speed(run, times[0])), _label(len(axes), 0.0, words.speed(run, times[-1]))]
    return labels


def _label(x: float, y: float, text: str) -> dict[str, Any]:
    return {"x": x, "y": y, "text": text, "showarrow": False, "xanchor": "left", "xshift": 4, "bgcolor": GREY + "40"}
