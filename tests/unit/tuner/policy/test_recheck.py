# SPDX-License-Identifier: Apache-2.0
"""Tests of checking the adopted config again."""

from collections.abc import Iterator
from dataclasses import replace

from ringtune.tuner import (
    Phase,
    RunSettings,
    SilentObserver,
    TuningRun,
    VoidReason,
    Window,
    WindowSpec,
    make_designer,
    open_log,
)
from ringtune.tuner.logs.records import SampleRecord
from ringtune.tuner.policy_numbers import POLICY
from ringtune.tuner.testing import SyntheticTarget, poor_baseline
from tests.unit.tuner.recording import RecordingLog


class Evaluating(SyntheticTarget):
    """A job whose next windows may all have pauses."""

    def __init__(self) -> None:
        super().__init__(baseline=poor_baseline(), seed=3)
        self.void_windows = 0

    def windows(self, spec: WindowSpec) -> Iterator[Window]:
        """Yield the windows, so many of them void."""
        for window in super().windows(spec):
            self.void_windows -= 1
            yield window if self.void_windows < 0 else replace(window, void_reason=VoidReason.PAUSE)


def test_a_check_that_could_measure_nothing_changes_nothing() -> None:
    """A long evaluation voids its windows: the adopted config stays, and is watched on."""
    target = Evaluating()
    settings = RunSettings(max_samples=12)
    designer = make_designer("random", target.space(), 0)
    first = TuningRun(target, designer, settings, open_log(None), SilentObserver(), clock=target.clock)
    adopted = first.run().config
    target.void_windows = 12
    check = TuningRun(target, designer, replace(settings, run_id="2"), open_log(None), SilentObserver())

    result = check.recheck(adopted)

    assert adopted != target.baseline()
    assert adopted == result.config == target.applied[-1]
    assert check.can_be_watched
    assert "not checked" in result.verdict


def test_a_check_measures_several_windows_before_its_test() -> None:
    """No search precedes it, so the config in force shows how much windows differ."""
    target, log = Evaluating(), RecordingLog()
    settings = RunSettings(max_samples=12)
    designer = make_designer("random", target.space(), 0)
    adopted = TuningRun(target, designer, settings, open_log(None), SilentObserver(), clock=target.clock).run().config

    TuningRun(target, designer, replace(settings, run_id="2"), log, SilentObserver()).recheck(adopted)

    phases = [Phase(record.phase) for record in log.records if isinstance(record, SampleRecord)]
    assert phases.count(Phase.ADOPTION) > 2
    assert [Phase.WATCH] * POLICY.baseline_windows == phases[: phases.index(Phase.ADOPTION)]
