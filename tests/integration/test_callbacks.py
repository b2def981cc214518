# SPDX-License-Identifier: Apache-2.0
"""Callbacks in real jobs: rank 0's is called, never on the training's thread, and none can disturb the job."""

import re

from tests.integration.jobs import Finished, ranks, run_job
from tests.integration.quick_tuning import QUICK


def tuned_with(kind: str) -> Finished:
    """Run a tuned job of two ranks with a callback to its end."""
    return run_job(ranks(2, "tuned_with_callback", "6", "60", "marked", kind), QUICK)


def test_a_callback_hears_the_phases_and_the_result() -> None:
    """In their order, with the step of the job, once in the job, not on the thread that trains."""
    finished = tuned_with("records")

    assert 0 == finished.code, finished.text
    calls = re.findall(r"told (\w+) at step (\d+), main thread: (\w+)", finished.stdout)
    assert ["warmup", "baseline", "search"] == list(dict.fromkeys(phase for phase, _, _ in calls))[:3]
    assert {"False"} == {is_main for _, _, is_main in calls}
    steps = [int(step) for _, step, _ in calls]
    assert sorted(steps) == steps
    assert steps[0] < steps[-1]
    assert 1 == finished.stdout.count("told result True")
    assert 1 == finished.stdout.count("told the end")


def test_a_callback_that_raises_costs_one_warning() -> None:
    """A callback that raises is closed, and the job is tuned to its end."""
    finished = tuned_with("raises")

    assert 0 == finished.code, finished.text
    assert 1 == finished.stderr.count("callback Told failed and hears no more"), finished.text
    assert 1 == finished.stdout.count("told the end"), finished.text
    assert re.search("adopted|keeping default", finished.stderr), finished.text
    assert 2 == finished.stdout.count("exact steps"), finished.text


def test_a_callback_that_hangs_is_left_behind() -> None:
    """The job is tuned to its end, and ends."""
    finished = tuned_with("hangs")

    assert 0 == finished.code, finished.text
    assert 1 == finished.stderr.count("callback Told: did not finish within"), finished.text
    assert re.search("adopted|keeping default", finished.stderr), finished.text
    assert 2 == finished.stdout.count("exact steps"), finished.text
