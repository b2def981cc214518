# SPDX-License-Identifier: Apache-2.0
"""Tables of live runs, and the task that a run gets."""

from benchmarks.tuner.live.report import interval_text, run_table, scheme_table
from benchmarks.tuner.live.task import LiveTask

ROW = {
    "scheme": "ringtune",
    "seed": 0,
    "is_changed": True,
    "speedup": 0.2,
    "low": 0.1,
    "high": 0.3,
    "steps": 400,
    "seconds": 80.0,
    "cost_s": 1.5,
    "payback_steps": 40,
    "baseline_ms": 200.0,
}
ROWS = [ROW, {**ROW, "seed": 1, "speedup": 0.1, "payback_steps": None}, {**ROW, "scheme": "horovod", "speedup": -0.1}]


def test_a_task_survives_the_command_line() -> None:
    """A task survives the command line as JSON."""
    task = LiveTask("ringtune", 3, 0, 12, 160, 40.0, "10.0.0.1")

    assert task == LiveTask.from_argument(task.argument())


def test_an_interval_needs_two_runs() -> None:
    """An interval of two runs is wide: Student's t with one degree of freedom."""
    assert "+20.0 %" == interval_text([0.2])
    assert "+15.0 % (-48.5 to +78.5)" == interval_text([0.1, 0.2])


def test_tables_have_a_row_per_scheme_and_per_run() -> None:
    """Pay-back is the median of those runs that have one."""
    table = scheme_table(ROWS, "engine, 1gbit")

    assert ["ringtune", "horovod"] == list(table.columns[0].cells)
    assert ["40", "40"] == list(table.columns[-1].cells)
    assert len(ROWS) == run_table(ROWS).row_count
