# SPDX-License-Identifier: Apache-2.0
"""Facts of a tuning run, and their form for a scraper."""

import threading
from collections import Counter

import pytest

from ringtune.metrics.families import Families
from ringtune.metrics.tuner_facts import SCORES_PER_TRIAL, TunerFacts
from ringtune.metrics.tuner_metrics import TunerCollector
from ringtune.tuner import (
    Config,
    Phase,
    Progress,
    Result,
    RunSettings,
    TuningRun,
    VoidReason,
    default_config,
    make_designer,
)
from ringtune.tuner.logs.records import Record, ResultRecord, SampleRecord
from ringtune.tuner.testing import Disturbances, SyntheticTarget, poor_baseline
from ringtune.tuning.job.log_sinks import LogSinks
from tests.unit.ringtune.metrics.doubles import IDENTITY, labelled, series_of
from tests.unit.tuner.recording import RecordingLog


def tuned(facts: TunerFacts, seed: int = 1) -> tuple[Result, list[Record]]:
    """Return the end of a real tuning run on a synthetic target, and its log."""
    target = SyntheticTarget(baseline=poor_baseline(), seed=seed)
    log = RecordingLog()
    designer = make_designer("random", target.space(), seed)
    settings = RunSettings(run_id="test", max_samples=6)
    return TuningRun(target, designer, settings, LogSinks([facts, log]), facts, clock=target.clock).run(), log.records


@pytest.fixture(scope="module")
def outcome() -> tuple[TunerFacts, Result, list[Record]]:
    """A finished run, its facts and its records."""
    facts = TunerFacts()
    return facts, *tuned(facts)


def test_what_is_noted_agrees_with_the_log(outcome: tuple[TunerFacts, Result, list[Record]]) -> None:
    """Windows, suggestions and the designer's time are those of the records, all of which reach the log behind."""
    facts, _, records = outcome
    state = facts.state()

    samples = [record for record in records if isinstance(record, SampleRecord)]
    assert Counter(record.phase for record in samples) == state.windows
    assert Counter(record.reason for record in samples if record.reason) == state.void_windows
    assert {"random": 6} == state.suggestions
    assert 0 < state.design_s
    assert [ResultRecord] == [type(record) for record in records[-1:]]


def test_the_decision_is_the_runs(outcome: tuple[TunerFacts, Result, list[Record]]) -> None:
    """Speed-up with its interval, cost and verdict; the phase is the watch."""
    facts, result, _ = outcome
    state = facts.state()

    assert result.adopted
    assert (result.speedup, result.ci_low, result.ci_high) == state.speedup
    assert {"adopted": 1} == state.decisions
    assert max(result.cost_s, 0.0) == state.exploration_s
    assert Phase.WATCH is state.run.phase
    assert result.verdict == (state.result.verdict if state.result else None)


def test_scores_are_medians_by_trial(outcome: tuple[TunerFacts, Result, list[Record]]) -> None:
    """The best trial beats the poor baseline; the newest window's step time is in seconds."""
    facts, _, records = outcome
    run = facts.state().run

    last = [record for record in records if isinstance(record, SampleRecord) and record.valid][-1]
    assert last.step_ms["median"] * 1e-3 == run.step_s
    assert run.baseline_score_bytes_per_s is not None
    assert run.best_score_bytes_per_s is not None
    assert run.baseline_score_bytes_per_s < run.best_score_bytes_per_s
    assert all(len(scores) <= SCORES_PER_TRIAL for scores in run.scores.values())


def test_costs_of_runs_add_up_and_a_new_run_has_its_own_scores() -> None:
    """Costs of runs add up without the gains of others; the begin of the first run stays."""
    facts = TunerFacts()
    first, _ = tuned(facts)
    began_unix_s = facts.state().began_unix_s

    second, _ = tuned(facts, seed=2)

    state = facts.state()
    assert max(first.cost_s, 0.0) + max(second.cost_s, 0.0) == state.exploration_s
    assert began_unix_s == state.began_unix_s
    assert 2 == sum(state.decisions.values())


class Watching:
    """An observer that notes the running cost before facts learn of the end, and after each record."""

    def __init__(self, facts: TunerFacts) -> None:
        self.facts = facts
        self.seen: list[float] = []

    def progress(self, progress: Progress) -> None:
        """Pass it on, and look."""
        self.facts.progress(progress)
        self.seen.append(self.facts.state().run.cost_s)

    def finished(self, result: Result) -> None:
        """Look, and pass it on."""
        self.seen.append(self.facts.state().run.cost_s)
        self.facts.finished(result)

    def warned(self, text: str) -> None:
        """Pass it on."""
        self.facts.warned(text)


@pytest.mark.parametrize("baseline", [default_config(), poor_baseline()], ids=["costs", "gains"])
def test_what_a_run_costs_is_known_while_it_goes_on(baseline: Config) -> None:
    """The running cost ends at the tuner's own figure; then the sum has it, and no run goes on."""
    facts = TunerFacts()
    watching = Watching(facts)
    target = SyntheticTarget(baseline=baseline, disturbances=Disturbances(void={VoidReason.PAUSE: 0.1}), seed=3)
    settings = RunSettings(run_id="test", max_samples=6)
    designer = make_designer("random", target.space(), 3)
    log = LogSinks([facts, RecordingLog()])

    result = TuningRun(target, designer, settings, log, watching, clock=target.clock).run()

    assert len(set(watching.seen)) > 6
    assert pytest.approx(result.cost_s, rel=0.05) == watching.seen[-1]
    assert 0.0 == facts.state().run.cost_s
    assert max(result.cost_s, 0.0) == facts.state().exploration_s


def test_a_copy_does_not_change_when_the_tuner_goes_on() -> None:
    """A reader keeps the facts of its moment."""
    facts = TunerFacts()
    before = facts.state()

    facts.warned("something")

    assert 0 == before.warnings
    assert 1 == facts.state().warnings


def test_reading_does_not_wait_for_a_run_and_disturbs_none() -> None:
    """Scrapes beside a run see whole states; the run's outcome is that of a run alone."""
    facts = TunerFacts()
    is_over = threading.Event()
    seen: list[int] = []

    def read() -> None:
        while not is_over.is_set():
            state = facts.state()
            seen.append(sum(state.windows.values()) - sum(state.void_windows.values()))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        result, _ = tuned(facts)
    finally:
        is_over.set()
        reader.join()

    alone, _ = tuned(TunerFacts())
    assert (alone.config, alone.verdict) == (result.config, result.verdict)
    assert sorted(seen) == seen


def test_before_the_first_step_a_scraper_reads_zeros_and_no_guesses() -> None:
    """Counters begin at 0 with all their labels; unknown values have no series."""
    found = series_of(TunerCollector(Families(IDENTITY), TunerFacts()))

    assert 0.0 == found[labelled("ringtune_tuner_windows_total", phase="search")]
    assert 0.0 == found[labelled("ringtune_tuner_void_windows_total", reason="pause")]
    assert 0.0 == found[labelled("ringtune_tuner_runs_total", decision="adopted")]
    assert 0.0 == found[labelled("ringtune_tuner_run_exploration_seconds")]
    assert {0.0} == {value for (name, _), value in found.items() if name == "ringtune_tuner_phase"}
    unknown = (
        "speedup_ratio",
        "adopted",
        "verdict_info",
        "step_seconds",
        "remaining_seconds",
        "score_bytes_per_second",
    )
    assert not {f"ringtune_tuner_{name}" for name in unknown} & {name for name, _ in found}


def test_after_a_run_a_scraper_reads_its_decision(outcome: tuple[TunerFacts, Result, list[Record]]) -> None:
    """The same figures as the verdict's."""
    facts, result, _ = outcome

    found = series_of(TunerCollector(Families(IDENTITY), facts))

    assert result.speedup == found[labelled("ringtune_tuner_speedup_ratio")]
    assert result.ci_low == found[labelled("ringtune_tuner_speedup_low_ratio")]
    assert result.ci_high == found[labelled("ringtune_tuner_speedup_high_ratio")]
    assert 1.0 == found[labelled("ringtune_tuner_adopted")]
    assert 1.0 == found[labelled("ringtune_tuner_verdict_info", verdict=result.verdict)]
    assert result.payback_steps == found[labelled("ringtune_tuner_payback_steps")]
    assert 1.0 == found[labelled("ringtune_tuner_phase", phase="watch")]
    assert 0.03 == found[labelled("ringtune_tuner_exploration_limit_ratio")]
