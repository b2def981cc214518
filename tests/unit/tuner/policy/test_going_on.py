# SPDX-License-Identifier: Apache-2.0
"""A run that goes on from earlier ones: its new measurements, its knowledge, and the use of its budget."""

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from ringtune.tuner import (
    CategoryParameter,
    Config,
    Phase,
    RunSettings,
    SearchSpace,
    TuningRun,
    VoidReason,
    make_designer,
    open_log,
)
from ringtune.tuner.logs.earlier import NOTHING_EARLIER, EarlierRuns, find_earlier
from ringtune.tuner.logs.records import SampleRecord
from ringtune.tuner.review import analyse, reading, review_log
from ringtune.tuner.statistics.machine_level import LEAST_SIDE
from ringtune.tuner.testing import Disturbances, SyntheticTarget
from tests.unit.tuner.recording import Outcome, RecordingObserver, samples, tune

SPACE = SearchSpace([CategoryParameter(f"k{i}", ("1", "2", "4", "8"), "1") for i in range(3)], {})
QUIET = Disturbances(step_noise=0.005, window_noise=0.002)
SLOWER = 0.3
"""ln of the factor by which a machine is slower on the second day."""


class Command(SyntheticTarget):
    """A command that is faster the higher k0 is, and fails where k1 is 8."""

    def __init__(self, slower: float = 0.0) -> None:
        super().__init__(surface=self.log_ms, baseline=SPACE.default(), space=SPACE, disturbances=QUIET)
        self._slower = slower

    def log_ms(self, config: Config) -> float:
        """Return ln(step time)."""
        return math.log(20.0) - 0.1 * math.log2(float(str(config["k0"]))) + self._slower

    def _void_reason(self) -> VoidReason | None:
        return VoidReason.LAUNCH_FAILED if self.applied[-1]["k1"] == "8" else None


def run(path: Path, run_id: str, **limits: float | None) -> Outcome:
    """Append a run to a log; it goes on from the newest one there."""
    earlier = find_earlier(path, {}, SPACE.to_json(), 0)
    settings = RunSettings(run_id=run_id, fixed_windows=True, warmup_steps=0, adoption_pairs=3, goes_on_from=earlier)
    log = open_log(path)
    settings = replace(settings, **{"max_samples": None, **limits})  # type: ignore[arg-type]
    outcome = tune(Command(), make_designer("gp", SPACE, 0, are_trials_cheap=True), settings, log)
    log.close()
    records = [sample for log in find_earlier(path, {}, SPACE.to_json(), 0).logs[-1:] for sample in log.samples]
    return replace(outcome, records=[*records])


def test_earlier_samples_are_done_and_failed_configs_are_not_paid_for_again(tmp_path: Path) -> None:
    """The budget counts all; the baseline is measured as often as shows whether the machine has changed."""
    first = run(tmp_path / "log", "a", max_samples=12)
    second = run(tmp_path / "log", "b", max_samples=18)

    failed = {str(sample.config) for sample in samples(first, Phase.SEARCH) if not sample.valid}
    assert failed
    assert 18 - 12 == len(samples(second, Phase.SEARCH))
    assert set() == failed & {str(sample.config) for sample in samples(second, Phase.SEARCH)}
    phases = [record.phase for record in second.records if isinstance(record, SampleRecord)]
    assert LEAST_SIDE == phases.index(Phase.SEARCH)
    assert "an earlier run of the same job has adopted it, too" in second.result.verdict


@pytest.mark.parametrize(("limit", "half", "whole"), [("max_seconds", 6.0, 12.0), ("max_steps", 120, 240)])
def test_a_budget_of_seconds_or_steps_counts_those_of_finished_runs(
    tmp_path: Path, limit: str, half: float, whole: float
) -> None:
    """Twice the budget leaves less than a run has that begins with all of it; the sentence on the end counts both."""
    run(tmp_path / "log", "a", **{limit: half})
    second = run(tmp_path / "log", "b", **{limit: whole})
    alone = run(tmp_path / "other", "c", **{limit: whole})

    assert len(samples(second, Phase.SEARCH)) > 0
    assert second.result.seconds < 0.8 * alone.result.seconds
    assert f" of --{limit.replace('_', '-')}={whole:g} were used" in second.result.ended


def test_earlier_samples_are_levelled_to_the_machine_of_today(tmp_path: Path) -> None:
    """The machine is a third slower: without levelling every new config would look worse than the earlier ones."""
    path, command = tmp_path / "log", Command(SLOWER)
    run(path, "a", max_samples=8)
    earlier = find_earlier(path, {}, SPACE.to_json(), 0)
    settings = RunSettings(run_id="b", max_samples=12, fixed_windows=True, warmup_steps=0, goes_on_from=earlier)
    designer = make_designer("gp", SPACE, 0, are_trials_cheap=True)

    tuning = TuningRun(command, designer, settings, open_log(None), RecordingObserver(), clock=command.clock)
    tuning.run()

    known = [trial for trial in tuning.trials if trial.config in earlier.measured and trial.is_conclusive]
    assert len(known) > 3
    for trial in known:
        assert trial.log_step_ms == pytest.approx([command.log_ms(trial.config)] * len(trial.log_step_ms), abs=0.05)


def test_a_review_has_the_samples_that_a_run_goes_on_from(tmp_path: Path) -> None:
    """Its model knows all of them, under the run's own trial numbers."""
    run(tmp_path / "log", "a", max_samples=8)
    second = run(tmp_path / "log", "b", max_samples=12)

    reviewed = review_log(tmp_path / "log").runs[-1]

    assert 12 == sum(sample.phase == Phase.SEARCH for sample in reviewed.tried)
    assert 1 == max(Counter(trial.trial_id for trial in analyse(reviewed).trials).values())
    assert reviewed.seconds > second.result.seconds


def test_a_log_of_many_runs_is_joined_within_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each run has taken over all before it: the newest ones have their windows, and memory stays bounded."""
    for number in range(4):
        run(tmp_path / "log", str(number), max_samples=2 * number + 2)
    whole = [len(reviewed.tried) for reviewed in review_log(tmp_path / "log").runs]
    monkeypatch.setattr(reading, "MOST_JOINED", 10)

    bounded = [len(reviewed.tried) for reviewed in review_log(tmp_path / "log").runs]

    assert whole == sorted(whole)
    assert whole[-1] == bounded[-1]
    assert bounded[2] < whole[2]


def test_beginning_anew_is_recorded(tmp_path: Path) -> None:
    """A later run must not go on from a run that its predecessor has rejected."""
    run(tmp_path / "log", "a", max_samples=3)
    settings = RunSettings(run_id="b", max_samples=3, fixed_windows=True, warmup_steps=0, goes_on_from=NOTHING_EARLIER)
    log = open_log(tmp_path / "log")
    tune(Command(), settings=settings, log=log)
    log.close()

    found: EarlierRuns = find_earlier(tmp_path / "log", {}, SPACE.to_json(), 0)

    assert ("b",) == found.run_ids
