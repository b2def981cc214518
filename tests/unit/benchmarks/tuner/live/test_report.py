# SPDX-License-Identifier: Apache-2.0
"""Tables of live runs, and the task that a run gets."""

import pytest

from benchmarks.tuner.live.cells import FRONTS, Cell, zoo
from benchmarks.tuner.live.nets import ZOO
from benchmarks.tuner.live.report import cell_table, gain_figure, gain_map, total_change
from benchmarks.tuner.live.task import LiveTask

CONFIG = {"cycle_ms": 1.0, "fusion_bytes": 0}
GAIN = {"config": CONFIG, "speedup": 0.25, "low": 0.2, "high": 0.3, "baseline_ms": 100.0}
ROW = {
    "cell": Cell("mlp", delay_ms=5.0).name,
    "scheme": "ringtune",
    "seed": 0,
    "adopted": True,
    "baseline": {"cycle_ms": 5.0, "fusion_bytes": 0},
    "steps": 1000,
    "seconds": 90.0,
    "cost_s": 3.0,
    "gain": GAIN,
    "best": {**GAIN, "speedup": 0.3},
}
RIVAL = {"cell": ROW["cell"], "scheme": "horovod", "seed": 0, "steps": 990, "gain": {**GAIN, "speedup": -0.1}}


def test_a_task_survives_the_command_line() -> None:
    """A task survives the command line as JSON."""
    task = LiveTask("mlp", "engine", "ringtune", 3, 0)

    assert task == LiveTask.from_argument(task.argument())


def test_the_zoo_has_every_net_and_front_and_no_cell_twice() -> None:
    """The first cells meet every link, and three hosts, a slow one, and lost packets."""
    cells = list(zoo())

    assert len({cell.name for cell in cells}) == len(cells)
    assert set(ZOO) == {cell.net for cell in cells}
    assert set(FRONTS) == {cell.front for cell in cells}
    first = cells[:24]
    assert 12 == len({(cell.delay_ms, cell.link) for cell in first})
    assert {2, 3} == {cell.hosts for cell in first}
    assert any(cell.slow_share < 1 for cell in first)
    assert any(cell.lost_share > 0 for cell in first)


@pytest.mark.parametrize(("is_adopted", "expected"), [(True, (3.0 - 500 * 0.2) / 600), (False, 3.0 / 600)])
def test_a_job_of_ten_minutes_gains_in_the_steps_after_the_decision(expected: float, *, is_adopted: bool) -> None:
    """The decision comes after 100 of 600 s; the other steps take 1 / 1.25 of their time if a config was adopted."""
    assert expected == pytest.approx(total_change({**ROW, "adopted": is_adopted}))


def test_tables_have_a_row_per_run_and_a_place_per_link() -> None:
    """A rival's gain stands in the row of the run with the same cell and seed."""
    rows = [ROW, RIVAL]
    table, places = cell_table(rows), gain_map(rows)

    assert ["cycle_ms=1.0"] == list(table.columns[2].cells)
    assert ["-10.0 (+20.0 to +30.0)"] == list(table.columns[-1].cells)
    assert ["-", "-", "+25.0 (1)", "-"] == list(places.columns[2].cells)
    assert [(None, None, None), (None, None, None), (None, 25.0, None), (None, None, None)] == [
        tuple(row) for row in gain_figure(rows).data[0].z
    ]
