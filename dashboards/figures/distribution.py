# SPDX-License-Identifier: Apache-2.0
"""Step times of the baseline against those of the config that was tested against it."""

from collections.abc import Sequence
from statistics import median, quantiles

import plotly.graph_objects as go

from ringtune.tuner.review import Analysis, RunReview, words
from ringtune.tuner.sample import Phase
from ringtune.tuner.space.config import Config

from .figure import BLUE, ORANGE, Figure, FigureTable, described, thinned


def distribution_figure(run: RunReview, analysis: Analysis) -> Figure | None:
    """Return the windows' medians of both configs, or None where there are not two with step times."""
    run = analysis.levelled.run
    rival = rival_of(run, analysis)
    if run.baseline is None or rival is None or not run.has_step_times:
        return None
    label = "chosen" if rival == run.chosen else "best candidate"
    times = {name: _step_ms(run, config) for name, config in (("baseline", run.baseline), (label, rival))}
    if not all(times.values()):
        return None
    boxes = [
        go.Box(y=thinned(values), name=name, boxpoints="all", jitter=0.4, pointpos=0, marker={"color": colour})
        for (name, values), colour in zip(times.items(), (ORANGE, BLUE), strict=True)
    ]
    before, after = (median(values) for values in times.values())
    return Figure(
        "distribution",
        f"Step times: baseline against {label}",
        f"Each point is the median step time of a window. Median of the baseline's windows {before:.2f} ms, of the "
        f"other's {after:.2f} ms. The paired test compares neighbouring windows, so that drift cancels; the boxes "
        f"do not, and show no gain.{words.about_drift(analysis)}",
        FigureTable.of(
            ("config", "windows", "lowest", "lower quartile", "median", "upper quartile", "highest"),
            [(name, *_five_numbers(values)) for name, values in times.items()],
        ),
        described(boxes, showlegend=False, yaxis={"title": {"text": "median step time, ms"}, "zeroline": False}),
    )


def rival_of(run: RunReview, analysis: Analysis) -> Config | None:
    """Return the config chosen, or last tested against the baseline, or else the fastest one; never the baseline."""
    tested = [sample.config for sample in run.tried if sample.phase == Phase.ADOPTION]
    fastest = sorted((trial for trial in analysis.trials if trial.windows), key=lambda trial: trial.log_time or 0.0)
    rivals = (run.chosen, *reversed(tested), *(trial.config for trial in fastest))
    return next((config for config in rivals if config not in {None, run.baseline}), None)


def _step_ms(run: RunReview, config: Config) -> list[float]:
    return [sample.step_ms for sample in run.windows_of(config) if sample.step_ms is not None]


def _five_numbers(values: Sequence[float]) -> tuple[str, ...]:
    quartiles = quantiles(values, n=4, method="inclusive") if len(values) > 1 else [values[0]] * 3
    return (str(len(values)), *(f"{value:.2f} ms" for value in (min(values), *quartiles, max(values))))
