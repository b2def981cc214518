# SPDX-License-Identifier: Apache-2.0
"""Tests of forecasts: the best config found, the curves and the surface around it, JSON, and the drawing."""

import io
import json

import pytest
from rich.console import Console

from ringtune.tuner import SpaceError, default_config
from ringtune.tuner.simulator import (
    SCENARIOS,
    Cluster,
    Curve,
    Forecast,
    SimulatedMachine,
    StepSurface,
    forecast,
    model_job,
    predicted_step_ms,
    render_forecast,
    to_json,
)
from ringtune.tuner.simulator.drawing import draw_curve, letter_of
from tests.unit.tuner.simulator.jobs import config_of, hosts_of

CLUSTER = hosts_of(2, 2, "1gbit", cores_per_host=2)
JOB = model_job("mobilenet_v2", 60.0)
FLAT_RING = default_config(CLUSTER.layout).replace({"hierarchical_allreduce": False})


@pytest.fixture(scope="module")
def answer() -> Forecast:
    """Return the forecast of a job that hierarchical allreduces help, whose baseline is the flat ring."""
    return forecast(JOB, CLUSTER, baseline=FLAT_RING)


def printed(answer: Forecast, *, width: int = 100, has_colours: bool = False) -> str:
    """Return the drawing's output."""
    out = io.StringIO()
    render_forecast(
        answer,
        Console(file=out, width=width, force_terminal=has_colours, color_system="truecolor" if has_colours else None),
    )
    return out.getvalue()


def test_the_baseline_and_the_best_are_simulated(answer: Forecast) -> None:
    """Their times are the model's own; the gain is their ratio; the share is the time without computing."""
    for expected in (answer.baseline, answer.best):
        assert predicted_step_ms(SimulatedMachine(), CLUSTER, JOB, expected.config) == expected.step_ms
        assert 1.0 - JOB.compute_ms / expected.step_ms == pytest.approx(expected.exposed_share)
    assert FLAT_RING == answer.baseline.config
    assert answer.baseline.step_ms / answer.best.step_ms - 1.0 == pytest.approx(answer.speedup)
    assert answer.best.config["hierarchical_allreduce"]
    assert answer.speedup > 0.2


def test_the_baseline_is_the_layouts_default_unless_another_is_given(answer: Forecast) -> None:
    """The best config does not depend on where the search begins."""
    of_default = forecast(JOB, CLUSTER)

    assert default_config(CLUSTER.layout) == of_default.baseline.config
    assert of_default.baseline.step_ms < answer.baseline.step_ms
    assert of_default.best.step_ms == pytest.approx(answer.best.step_ms, rel=0.01)


def test_nothing_along_a_curve_or_in_the_surface_is_better(answer: Forecast) -> None:
    """The search ends where no parameter alone leads further; the surface may hold a better pair by little."""
    assert answer.surface is not None
    times = [time for curve in answer.curves for time in curve.step_ms]
    cells = [time for row in answer.surface.step_ms for time in row]

    assert answer.best.step_ms <= min(times)
    assert answer.best.step_ms <= 1.005 * min(cells)


def test_the_search_goes_on_while_a_curve_leads_further() -> None:
    """For this job the first round along the parameters leaves something to a second."""
    scenario = SCENARIOS["bert_base_8x8_25gbit"]

    answer = forecast(scenario.job, scenario.cluster)

    assert answer.best.step_ms == min(time for curve in answer.curves for time in curve.step_ms)


def test_there_is_a_curve_per_free_parameter(answer: Forecast) -> None:
    """A curve has a time per value, special values included."""
    curves = {curve.name: curve for curve in answer.curves}

    assert {"fusion_bytes", "cycle_ms", "response_cache", "chunk_bytes", "hierarchical_allreduce"} == set(curves)
    assert (False, True) == curves["response_cache"].values
    assert curves["fusion_bytes"].values[0] == 0
    assert curves["chunk_bytes"].values[0] == "auto"
    assert all(len(curve.values) == len(curve.step_ms) for curve in answer.curves)


def test_the_surface_has_the_models_times(answer: Forecast) -> None:
    """Each cell is a step under its row's fusion and its column's cycle."""
    surface = answer.surface
    assert surface is not None

    for row, column in ((0, 0), (-1, 3), (5, -1)):
        config = answer.best.config.replace({"fusion_bytes": surface.rows[row], "cycle_ms": surface.columns[column]})
        assert predicted_step_ms(SimulatedMachine(), CLUSTER, JOB, config) == surface.step_ms[row][column]


def test_fixed_values_are_not_searched() -> None:
    """A fixed parameter has no curve and keeps its value; a surface needs both of its parameters."""
    answer = forecast(JOB, CLUSTER, fixed={"cycle_ms": 3.0})

    assert 3.0 == answer.baseline.config["cycle_ms"] == answer.best.config["cycle_ms"]
    assert "cycle_ms" not in [curve.name for curve in answer.curves]
    assert answer.surface is None
    assert "fusion_bytes by cycle_ms" not in printed(answer)


def test_an_illegal_baseline_is_refused() -> None:
    """A baseline with a value that cannot act in the layout, or is out of range, is refused."""
    with pytest.raises(SpaceError, match="hierarchical_allreduce"):
        forecast(JOB, Cluster(), baseline=config_of(hierarchical_allreduce=True))
    with pytest.raises(SpaceError, match="cycle_ms"):
        forecast(JOB, CLUSTER, fixed={"cycle_ms": 1e9})


def test_a_world_of_one_has_nothing_to_gain() -> None:
    """Its baseline is kept, and everything is flat."""
    answer = forecast(JOB, Cluster(1, 1, 2))

    assert 0.0 == answer.speedup == answer.best.exposed_share
    assert default_config() == answer.best.config
    assert "Tuning could gain nothing" in printed(answer)


def test_a_forecast_is_json(answer: Forecast) -> None:
    """A forecast can be written and read again; configs are plain objects."""
    data = json.loads(json.dumps(to_json(answer)))

    assert answer.best.step_ms == data["best"]["step_ms"]
    assert answer.best.config.to_json() == data["best"]["config"]
    assert 2 == data["cluster"]["hosts"]
    assert len(answer.curves) == len(data["curves"])
    assert answer.surface is not None
    assert [list(row) for row in answer.surface.step_ms] == data["surface"]["step_ms"]


def test_the_drawing_says_what_is_gained(answer: Forecast) -> None:
    """Job, cluster, both configs, and the map, within 80 columns; without colours no escape codes."""
    text = printed(answer, width=80)

    assert "mobilenet_v2: 158 gradients, 13.37 MiB" in text
    assert "2 x 2 ranks, 2 cores a host, 1gbit each" in " ".join(text.split())
    assert f"{100 * answer.speedup:+.1f} %" in text
    assert "fusion_bytes by cycle_ms" in text
    assert "\x1b" not in text
    assert max(len(line) for line in text.splitlines()) <= 80


def test_the_map_is_coloured_where_there_are_colours(answer: Forecast) -> None:
    """The best cells are green, by their full colour code."""
    assert "48;2;26;152;80" in printed(answer, has_colours=True)


def test_letters_follow_the_loss() -> None:
    """A up to 1 % above the shortest step, then in growing bounds."""
    assert "AABCEHJ" == "".join(letter_of(100.0 * factor, 100.0) for factor in (1.0, 1.01, 1.015, 1.05, 1.2, 2.0, 9.0))


def test_a_map_shows_its_cells() -> None:
    """One letter per cell, in the surface's order."""
    surface = StepSurface((0, 1048576), (0.05, 1.0, 50.0), ((10.0, 20.0, 40.0), (10.0, 10.4, 11.5)))
    blank = forecast(JOB, Cluster(1, 1, 2))
    answer = Forecast(**{**vars(blank), "surface": surface})

    lines = [line.split() for line in printed(answer).splitlines()]

    assert ["0", "(off)", "A", "H", "J"] in lines
    assert ["1", "MiB", "A", "C", "E"] in lines


def test_curves_are_drawn_on_their_own_scale() -> None:
    """A curve's scale goes from its lowest bar to its highest; differences below 1 % are hardly seen."""
    assert "▁█▁" == draw_curve(Curve("x", (1, 2, 3), (10.0, 20.0, 10.0)))
    assert "▁▂" == draw_curve(Curve("x", (1, 2), (10.0, 10.01)))
