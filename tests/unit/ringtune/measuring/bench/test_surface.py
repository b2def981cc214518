# SPDX-License-Identifier: Apache-2.0
"""Requests for recordings, and the task of a launch."""

import io
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from ringtune.errors import ConfigError, RingtuneError
from ringtune.measuring.bench import surface
from ringtune.measuring.bench.surface import SurfaceRequest, record_surface
from ringtune.measuring.bench.surface_assignment import MAX_STEPS, MIN_STEPS, Assignment
from ringtune.measuring.bench.surface_file import JOURNAL_SUFFIX
from ringtune.measuring.bench.surface_rank import window_steps
from ringtune.measuring.bench.workloads import Workload, WorkloadGradient
from ringtune.system.child_process import Child

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


def test_a_launch_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its records until then were given out; the error has the exit code and the last words."""
    monkeypatch.setattr(surface, "SILENCE_LIMIT_S", 1.0)
    program = "import sys, time; print('hm', file=sys.stderr); print('{\"turn\": 1}', flush=True); time.sleep(600)"
    with Child([sys.executable, "-c", program], has_session=False) as child:
        records = surface._records(child)

        assert {"turn": 1} == next(records)
        with pytest.raises(RingtuneError, match="exit code -9; what was measured is kept.*\nhm"):
            next(records)


def test_a_surface_that_is_complete_has_no_journal(tmp_path: Path) -> None:
    """One that was left by a kill would be the next recording, once the surface is removed to record it again."""
    request = SurfaceRequest(tmp_path / "s.gz", 2, WORKLOAD)
    request.file.write_bytes(b"")
    journal = tmp_path / f"s.gz{JOURNAL_SUFFIX}"
    journal.write_text("{}\n")

    is_complete = record_surface(request, None, os.environ, Console(file=io.StringIO()))

    assert is_complete
    assert not journal.exists()
