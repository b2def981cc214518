# SPDX-License-Identifier: Apache-2.0
"""Requests for recordings, and the task of a launch."""

import io
import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from ringtune.errors import ConfigError
from ringtune.measuring.bench.surface import SurfaceRequest, _records, record_surface
from ringtune.measuring.bench.surface_assignment import MAX_STEPS, MIN_STEPS, Assignment
from ringtune.measuring.bench.surface_file import JOURNAL_SUFFIX
from ringtune.measuring.bench.surface_rank import window_steps
from ringtune.measuring.bench.workloads import Workload, WorkloadGradient

WORKLOAD = Workload("w", (WorkloadGradient("a", 256 * 1024), WorkloadGradient("b", 256 * 1024)))


def test_computing_grows_with_the_gradients(tmp_path: Path) -> None:
    """Unless it is said how long a step computes."""
    request = SurfaceRequest(tmp_path / "s.gz", 2, WORKLOAD)

    assert 1.0 == request.step_compute_ms
    assert 7.5 == replace(request, compute_ms=7.5).step_compute_ms


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"ranks": 1}, "-np 1: an allreduce has at least 2 ranks"),
        ({"repeats": 0}, "--rounds 0: the grid must be measured at least once"),
        ({"minutes": 0.0}, "--minutes 0: give more than 0"),
        ({"compute_ms": 0.0}, "--compute-ms 0: steps that compute nothing"),
        ({"file": Path("/no/such/folder/s.gz")}, "there is no folder /no/such/folder"),
    ],
)
def test_what_cannot_be_recorded_is_refused(tmp_path: Path, wrong: dict[str, object], message: str) -> None:
    """The refusal has the option, the value and the remedy."""
    request = replace(SurfaceRequest(tmp_path / "s.gz", 2, WORKLOAD), **wrong)  # type: ignore[arg-type]

    with pytest.raises(ConfigError, match=message):
        request.check()


def test_an_assignment_survives_the_command_line() -> None:
    """Names with colons and equals signs, too."""
    workload = Workload("w", (WorkloadGradient("dense/kernel:0", 2), WorkloadGradient("x=y", 7)))
    assignment = Assignment(workload.argument(), 1.5, 600.0, ({"cycle_ms": 1.0}, {"cycle_ms": 2.0}))

    assert assignment == Assignment.from_argument(assignment.argument())


@pytest.mark.parametrize(("step_ms", "expected"), [(1.0, MAX_STEPS), (60.0, 10), (5000.0, MIN_STEPS)])
def test_a_window_has_steps_by_their_length(step_ms: float, expected: int) -> None:
    """Between the fewest and the most."""
    assert expected == window_steps(600.0, step_ms)


def test_an_interrupt_leaves_nothing_that_waits() -> None:
    """A timer that is still set would keep the process for as long as a launch may be silent."""

    class Interrupted(io.StringIO):
        """A launch's output that the user does not wait for."""

        def readline(self, *_: object) -> str:  # type: ignore[override]
            """Be interrupted."""
            raise KeyboardInterrupt

    with subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.DEVNULL, text=True) as process:
        process.stdout = Interrupted()

        with pytest.raises(KeyboardInterrupt):
            next(_records(process, (), threading.Thread()))

    timers = [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)]
    assert all(timer.finished.is_set() for timer in timers)  # its thread needs a moment to end


def test_a_surface_that_is_complete_has_no_journal(tmp_path: Path) -> None:
    """One that was left by a kill would be the next recording, once the surface is removed to record it again."""
    request = SurfaceRequest(tmp_path / "s.gz", 2, WORKLOAD)
    request.file.write_bytes(b"")
    journal = tmp_path / f"s.gz{JOURNAL_SUFFIX}"
    journal.write_text("{}\n")

    is_complete = record_surface(request, None, os.environ, Console(file=io.StringIO()))

    assert is_complete
    assert not journal.exists()
