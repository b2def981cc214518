# SPDX-License-Identifier: Apache-2.0
"""Tests of the figures: they draw the analysis, each has its table, and names cannot become markup."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ringtune.dashboards.figures.axes import ValueAxis
from ringtune.dashboards.figures.distribution import rival_of
from ringtune.dashboards.figures.figure import MAX_ROWS, Figure, FigureTable, plain
from ringtune.dashboards.figures.gallery import figures_of
from ringtune.dashboards.figures.speedups import Compared, step_times_figure
from ringtune.tuner import VoidReason
from ringtune.tuner.review import Analysis, RunReview, analyse, review_log
from ringtune.tuner.review.surrogate import SpeedUpInterval
from ringtune.tuner.testing import Disturbances, SyntheticTarget, flat_surface, poor_baseline
from tests.unit.tuner.review.logs import BAGUA, HOROVOD, horovod_logs, logged, reviewed

SVG_TRACES = {"scatter", "bar", "box", "contour"}


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunReview, Analysis]:
    """Return a run with some void windows, and its analysis."""
    path = tmp_path_factory.mktemp("figures") / "x.jsonl"
    disturbances = Disturbances(void={VoidReason.PAUSE: 0.1})
    logged(path, target=SyntheticTarget(baseline=poor_baseline(), disturbances=disturbances, seed=1))
    run = review_log(path).runs[0]
    return run, analyse(run)


def by_name(run: RunReview, analysis: Analysis) -> dict[str, Figure]:
    """Return a run's figures by name."""
    return {figure.name: figure for figure in figures_of(run, analysis)}


def traces(figure: Figure) -> dict[str, Any]:
    """Return the traces by their names."""
    return {trace.get("name", str(index)): trace for index, trace in enumerate(figure.plot["data"])}


def test_every_question_has_its_figure_and_every_figure_its_table(tuned: tuple[RunReview, Analysis]) -> None:
    """Titles and summaries too; only traces that are drawn without WebGL."""
    figures = by_name(*tuned)

    slices = [f"slice-{number}" for number in range(len(tuned[1].sensitivities))]
    expected = ["convergence", "distribution", "sensitivity", *slices, "surface", "parallel", "timeline"]
    assert expected == list(figures)
    for figure in figures.values():
        assert figure.title
        assert figure.summary
        assert figure.table.rows
        assert {len(figure.table.columns)} == {len(row) for row in figure.table.rows}
        assert {trace["type"] for trace in figure.plot["data"]} <= SVG_TRACES
        json.dumps(figure.plot, allow_nan=False)


def test_convergence_draws_every_window_that_counts(tuned: tuple[RunReview, Analysis]) -> None:
    """Every valid window is drawn, and the best so far ends at the fastest trial."""
    run, analysis = tuned

    drawn = traces(by_name(run, analysis)["convergence"])

    counted = sum(sample.valid for sample in run.tried)
    assert counted == sum(len(drawn[phase]["x"]) for phase in ("warmup", "baseline", "search", "adoption"))
    fastest = min(s.step_ms for s in run.tried if s.valid and s.phase == "search" and s.step_ms is not None)
    assert drawn["lowest median so far"]["y"][-1] == pytest.approx(fastest, rel=0.05)
    low, high = min(drawn["baseline, 90 %"]["y"]), max(drawn["baseline, 90 %"]["y"])
    times = [s.step_ms for s in run.windows_of(run.baseline) if s.step_ms is not None]
    assert sum(low <= time <= high for time in times) >= 0.8 * len(times)


def test_the_surface_is_the_models_and_carries_the_samples(tuned: tuple[RunReview, Analysis]) -> None:
    """At its highest, lightest point it is faster than the baseline; every config that was tried is a point."""
    run, analysis = tuned
    assert analysis.surrogate is not None

    drawn = traces(by_name(run, analysis)["surface"])

    contour = next(trace for trace in drawn.values() if trace["type"] == "contour")
    assert max(max(row) for row in contour["z"]) > 20
    assert not contour.get("reversescale")
    assert len(analysis.surrogate.configs) == len(drawn["tried"]["x"])
    assert {"baseline", "chosen"} <= set(drawn)
    assert [0.0] == drawn["baseline"]["x"]  # fusion is off there: beside the line of numbers


def test_the_timeline_counts_the_watch_apart(tuned: tuple[RunReview, Analysis]) -> None:
    """Windows after the decision are none of the time that it took; the axis goes on to the last of them."""
    run, analysis = tuned
    later = replace(run.tried[-1], phase="watch", t_s=run.seconds + 300.0)

    watched = by_name(replace(run, tried=(*run.tried, later)), analysis)["timeline"].summary

    assert watched.startswith(
        f"{len(run.tried)} windows in {run.seconds:.0f} s until the decision, and 1 of the watch after it, until "
        f"{run.seconds + 300.0:.0f} s."
    )


def test_the_timeline_lasts_as_long_as_the_run(tuned: tuple[RunReview, Analysis]) -> None:
    """Void windows and the designer have rows of their own, and no bar has a negative length."""
    run, analysis = tuned

    bars = by_name(run, analysis)["timeline"].plot["data"]

    rows = {bar["y"][0] for bar in bars}
    assert {"warmup", "baseline", "search", "adoption", "void", "designer"} == rows
    assert all(length >= 0 for bar in bars for length in bar["x"])
    end = max(base + length for bar in bars for base, length in zip(bar["base"], bar["x"], strict=True))
    assert run.seconds == pytest.approx(end)


def test_the_baseline_is_compared_with_what_was_tested_against_it(tuned: tuple[RunReview, Analysis]) -> None:
    """The baseline is compared with the chosen config, or with the best other one where the default was kept."""
    run, analysis = tuned

    boxes = traces(by_name(run, analysis)["distribution"])

    assert ["baseline", "chosen"] == list(boxes)
    assert sorted(s.step_ms or 0.0 for s in run.windows_of(run.chosen)) == sorted(boxes["chosen"]["y"])
    assert rival_of(replace(run, chosen=run.baseline), analysis) not in {None, run.baseline}


def test_lines_of_parallel_coordinates_end_in_the_order_of_speed(tuned: tuple[RunReview, Analysis]) -> None:
    """The fastest at the top."""
    run, analysis = tuned

    lines = by_name(run, analysis)["parallel"].plot["data"]

    ends = {line["text"]: line["y"][-1] for line in lines}
    fastest = min((t for t in analysis.trials if t.log_time is not None), key=lambda t: t.log_time or 0.0)
    (top,) = [text for text, end in ends.items() if end == 1.0]
    assert top.startswith(f"trial {fastest.trial_id}:")
    assert {0.0, 1.0} <= set(ends.values())


def test_what_a_log_cannot_answer_is_left_out(tmp_path: Path) -> None:
    """Horovod's log has no times and no baseline, Bagua's one number alone, a run that only warmed up two figures."""
    horovod, bagua = reviewed(tmp_path / "h.csv", HOROVOD), reviewed(tmp_path / "b.log", BAGUA)
    closed = SyntheticTarget(surface=flat_surface, disturbances=Disturbances(closes_after_windows=3))
    logged(tmp_path / "x.jsonl", target=closed)
    short = review_log(tmp_path / "x.jsonl").runs[0]

    names = [set(by_name(run, analyse(run))) for run in (horovod, bagua, short)]

    assert {"convergence", "sensitivity", "slice-0", "slice-1", "surface", "parallel"} == names[0]
    assert not {"surface", "distribution", "timeline"} & names[1]
    assert {"convergence", "timeline"} == names[2]


def test_real_logs_of_horovod_have_figures() -> None:
    """The surface included."""
    for path in horovod_logs()[::3]:
        run = review_log(path).runs[0]

        assert {"convergence", "sensitivity", "surface", "parallel"} <= set(by_name(run, analyse(run))), path


@pytest.mark.parametrize("name", ["<b>x</b>", "<a href='javascript:alert(1)'>x</a>", "&lt;img&gt;"])
def test_names_in_figures_are_no_markup(name: str) -> None:
    """Plotly would take angle brackets in a label for tags: they arrive escaped."""
    axis = ValueAxis(name, [name, "auto"])

    shown = json.dumps(axis.layout())

    assert "<" not in shown
    assert plain(name).replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&") == name


def test_an_axis_keeps_zero_and_words_beside_its_numbers() -> None:
    """Numbers on their scale: the middle of a logarithmic range lies in the middle."""
    axis = ValueAxis("chunk_bytes", ["auto", 1024, 1 << 20, 32768])

    positions = [axis.position(value) for value in ("auto", 1024, 32768, 1 << 20)]

    assert [0.0, 0.12, 1.0] == [positions[0], positions[1], positions[3]]
    assert positions[2] == pytest.approx((0.12 + 1.0) / 2)
    assert axis.number_at(0.5) == pytest.approx(32768)


def test_long_tables_say_how_much_is_left_out() -> None:
    """A page of a hundred thousand rows is no use to a reader."""
    table = FigureTable.of(["x"], [("1",)] * (MAX_ROWS + 7))

    assert (MAX_ROWS, 7) == (len(table.rows), table.left_out)


def test_step_times_have_bars_of_what_is_known_alone() -> None:
    """Studies without results have no best config, and none in the legend."""
    items = [Compared("a", None, 10.0), Compared("b", None, 20.0)]

    known = step_times_figure(items)
    found = step_times_figure([*items, Compared("c", SpeedUpInterval(0.25, 0.2, 0.3), 10.0)])

    assert known is not None
    assert found is not None
    assert {"baseline"} == set(traces(known))
    assert [None, None, 8.0] == list(traces(found)["confirmed config"]["x"])
