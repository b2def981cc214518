# SPDX-License-Identifier: Apache-2.0
"""The length of a comparison's runs: planned by a rehearsal, corrected by all runs since."""

import io
from collections.abc import Callable, Sequence

import pytest
from rich.console import Console

from ringtune.measuring.compare import comparison
from ringtune.measuring.compare.comparison import planned_steps, run_comparison
from ringtune.measuring.compare.launching import Run, StoreAddress
from ringtune.measuring.compare.messages import Arm
from ringtune.measuring.compare.request import CompareRequest, RankProgram

REQUEST = CompareRequest(2, RankProgram(("python",), "train.py", ()), pairs=4, seconds=4.0)


def run(arm: Arm, steps: int, seconds: float, *, did_script_end: bool = False) -> Run:
    """Return a run of the engine's."""
    return Run(arm, steps, seconds, did_script_end, {"engine_bytes": 1})


class PlannedRuns:
    """Runs whose step times are given, in the order in which they are made."""

    def __init__(self, step_s: Sequence[float], *, script_steps: int = 10**9) -> None:
        self._step_s = list(step_s)
        self._script_steps = script_steps
        self.made: list[Run] = []

    def run(self, arm: Arm, steps: int, on_progress: Callable[[int], None]) -> Run:
        """Make the next run."""
        on_progress(steps)
        made = min(steps, self._script_steps)
        step_s = self._step_s.pop(0) if len(self._step_s) > 1 else self._step_s[0]
        self.made.append(run(arm, made, made * step_s, did_script_end=made < steps))
        return self.made[-1]


def compared(monkeypatch: pytest.MonkeyPatch, runs: PlannedRuns, request: CompareRequest = REQUEST) -> list[Run]:
    """Return the runs of a comparison, rehearsal and repeated ones included."""
    monkeypatch.setattr(comparison, "Runs", lambda *_: runs)
    found = run_comparison(request, {}, StoreAddress("127.0.0.1", lambda: 1), Console(file=io.StringIO()))
    assert request.pairs == len(found.pairs)
    return runs.made


def test_a_rehearsal_of_slow_steps_is_corrected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first pair, of a fifth of the length, does not count; all that do have the length that was asked for."""
    made = compared(monkeypatch, PlannedRuns([0.05, 0.05, 0.01]))

    assert [10, 10, 80, 80, *[400] * 8] == [one.steps for one in made]
    assert [4.0] * 8 == pytest.approx([one.seconds for one in made[4:]])


def test_one_slow_run_does_not_decide_the_length_of_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine is five times slower during one pair; the next ones have about the length that was asked for."""
    made = compared(monkeypatch, PlannedRuns([0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.05, 0.05, 0.01]))

    assert made[-1].seconds > 1.5


def test_a_short_script_is_not_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A script that came to its own end is made longer by no plan."""
    made = compared(monkeypatch, PlannedRuns([0.01], script_steps=30))

    assert [10, 10, *[30] * 8] == [one.steps for one in made]


def test_steps_that_were_asked_for_hold() -> None:
    """Their time does not matter; without them the slower arm decides, and there are ten at least."""
    pair = (run("ddp", 100, 1.0), run("ringtune", 100, 2.0))

    assert 200 == planned_steps(REQUEST, [pair])
    assert 10 == planned_steps(REQUEST, [(run("ddp", 10, 100.0), run("ringtune", 10, 1.0))])
    assert 7 == planned_steps(CompareRequest(2, REQUEST.program, steps=7), [pair])
