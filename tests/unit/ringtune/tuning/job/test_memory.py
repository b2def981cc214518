# SPDX-License-Identifier: Apache-2.0
"""A machine's memory of earlier jobs: a damaged file is read line by line, with one note."""

import json
from pathlib import Path

import pytest

from ringtune.system.console import Console
from ringtune.tuner import (
    KeepingLog,
    RunSettings,
    SilentObserver,
    StudyStore,
    TuningRun,
    default_config,
    make_designer,
)
from ringtune.tuner.testing import SyntheticTarget, measured_trial
from ringtune.tuning.job.memory import Memory

KEY = {"hardware": "h", "model": "m", "layout": [2], "target": "ringtune", "surface_version": 1}


@pytest.fixture
def store(tmp_path: Path) -> StudyStore:
    """A file with a finished run."""
    target = SyntheticTarget(seed=3)
    log = KeepingLog()
    settings = RunSettings(key=KEY, max_samples=8, warmup_steps=0)
    designer = make_designer("random", target.space(), 0)
    TuningRun(target, designer, settings, log, SilentObserver(), clock=target.clock).run()
    kept = StudyStore(tmp_path / "studies.jsonl")
    kept.keep(log.finished_run())
    return kept


def notes_of(capfd: pytest.CaptureFixture[str]) -> list[str]:
    """Return the lines on stderr that speak of a file."""
    return [
        line for line in capfd.readouterr().err.splitlines() if "studies.jsonl" in line and "begins with" not in line
    ]


def test_a_whole_file_is_read_without_a_warning(store: StudyStore, capfd: pytest.CaptureFixture[str]) -> None:
    """One line names the studies with which the search begins."""
    space = SyntheticTarget().space()

    studies = Memory(store, Console(0, "info")).priors(KEY, space, 0)

    assert 1 == len(studies)
    assert all("damaged" not in line for line in notes_of(capfd))


def test_damaged_lines_are_left_out_with_one_note(store: StudyStore, capfd: pytest.CaptureFixture[str]) -> None:
    """A number that no square can be taken of, a torn line, and bytes: the rest still warms a search that works."""
    lines = store.path.read_text().splitlines()
    number = next(i for i, line in enumerate(lines) if '"sample"' in line)
    sample = json.loads(lines[number])
    absurd = json.dumps({**sample, "step_ms": {"median": 1.0, "mad": 1e300, "mean": 1.0}})
    damaged = [*lines[: number + 1], absurd, lines[number][:40], *lines[number + 1 :]]
    store.path.write_bytes("\n".join(damaged).encode() + b"\n\xff\xfe\n")
    space = SyntheticTarget().space()

    studies = Memory(store, Console(0)).priors(KEY, space, 0)
    designer = make_designer("gp", space, 0, studies)
    designer.update([measured_trial(0, default_config(), [20.0, 20.1])])

    (note,) = notes_of(capfd)
    assert f"left out 3 lines of it, the first is line {number + 2}" in note
    assert space.contains(designer.suggest().config)
