# SPDX-License-Identifier: Apache-2.0
"""Tests of tuning for as long as a job runs: the events that question a decision, the response, and its cost."""

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import pytest

from ringtune.tuner import (
    Config,
    Phase,
    RunSettings,
    TuningRun,
    VoidReason,
    Window,
    WindowSpec,
    default_config,
    make_designer,
    search_space,
    study_of,
)
from ringtune.tuner.logs.records import SampleRecord
from ringtune.tuner.policy.budget import ExplorationAccount
from ringtune.tuner.policy.continuous import BACK_OFF_S, LATER_SHARE
from ringtune.tuner.policy.watch import LOOK_EVERY_S
from ringtune.tuner.policy_numbers import POLICY
from ringtune.tuner.testing import (
    Disturbances,
    SyntheticTarget,
    coarse_grid,
    engine_like_surface,
    flat_surface,
    measured_trial,
    poor_baseline,
)
from tests.unit.tuner.policy.changing_target import CHANGE_S, HOUR_S, ChangingTarget, late_optimum, tune_for
from tests.unit.tuner.recording import RecordingLog, RecordingObserver


def test_a_steady_job_is_watched_and_left_alone() -> None:
    """After the decision no config is applied any more; a look now and then is in the log, and one run."""
    target = ChangingTarget(lambda _: 0.0)

    job = tune_for(target, hours=6)

    looks = job.samples(Phase.WATCH)
    gaps = [after.t_s - before.t_s for before, after in pairwise(looks)]
    assert 1 == len(job.runs) == len(job.results)
    assert job.results[0].adopted
    assert Config(job.results[0].config) == target.applied[-1]
    assert {looks[0].epoch} == {look.epoch for look in looks} == {len(target.applied)}
    assert len(looks) > 500
    assert min(gaps) >= LOOK_EVERY_S
    assert Phase.WATCH.value not in {r.phase for r in job.log.finished_run() if isinstance(r, SampleRecord)}


def test_an_adopted_config_that_has_become_slow_is_given_up_at_once() -> None:
    """The check finds the default faster, which is back before the search begins; the search starts from there."""
    target = ChangingTarget(lambda config: 0.0 if config == poor_baseline() else 1.5)

    job = tune_for(target, hours=3)

    assert job.verdicts[1].startswith("no longer adopted, keeping default")
    assert [poor_baseline()] * 2 == [Config(result.config) for result in job.results[1:3]]
    assert 3 == len(job.runs)
    assert [run.baseline for run in job.runs] == [poor_baseline().to_json()] * 3
    first_gone_s = next(r.t_s for r in job.records if isinstance(r, SampleRecord) and r.run_id == job.runs[1].run_id)
    assert first_gone_s < 60
    assert "step times have changed by +" in job.observer.warnings[0]


def test_a_machine_that_is_slower_as_a_whole_is_no_reason_to_search() -> None:
    """An adopted config that stays as much faster as before keeps its place after a single check."""
    target = ChangingTarget(lambda _: 0.25)

    job = tune_for(target, hours=4)

    assert 2 == len(job.runs)
    assert job.verdicts[1].startswith("still adopted: +")
    assert job.results[0].config == job.results[1].config == target.applied[-1].to_json()
    assert job.results[1].cost_s > 0


def test_where_the_best_may_be_elsewhere_now_a_new_search_begins_from_what_is_in_force() -> None:
    """The new search has the adopted config as baseline, half of the samples, and the first search's trials."""
    target = ChangingTarget(late_optimum)

    job = tune_for(target, hours=4)

    first, check, search = job.runs[:3]
    assert job.verdicts[1].startswith("still adopted: +")
    assert (poor_baseline().to_json(), job.results[0].config) == (check.baseline, search.baseline)
    assert 12 // LATER_SHARE == search.steps_budget["max_samples"]
    assert len({run.run_id for run in job.runs}) == len(job.runs)
    assert () == job.asked[0]
    assert {t.config for t in job.asked[1]} >= {
        Config(r.config) for r in job.samples(Phase.SEARCH) if r.run_id == first.run_id
    }
    assert [run.run_id for run in job.runs] == job.kept
    tried = {r.trial_id for r in job.samples(Phase.SEARCH) if r.run_id == search.run_id}
    assert 12 // LATER_SHARE - 1 == len(tried), "the default, measured in the check, is one of the samples"


def test_a_later_search_that_finds_nothing_keeps_what_is_in_force_and_says_so() -> None:
    """Not the default: its verdict names the other."""
    target = ChangingTarget(lambda config: 0.3 if config == poor_baseline() else 0.2)

    job = tune_for(target, hours=3, max_samples=2)

    kept = [verdict for verdict in job.verdicts[2:] if verdict.startswith("keeping what is in force: ")]
    assert kept
    assert target.applied[-1] != poor_baseline()


def test_a_default_that_was_kept_is_watched_too() -> None:
    """When it drifts there is no other config to compare it with: the search begins at once."""
    space = search_space({}, default_config(), tuned=("cycle_ms",))

    def surface(config: Config) -> float:
        is_late = target.now_s > CHANGE_S and float(config["cycle_ms"]) < 5.0
        return flat_surface(config) + (0.3 if is_late else 0.0)

    target = SyntheticTarget(surface=surface, space=space, seed=1)

    job = tune_for(target, hours=3)

    assert job.verdicts[0].startswith("keeping default")
    assert job.verdicts[1].startswith("adopted")
    assert float(target.applied[-1]["cycle_ms"]) > 5.0


def test_other_tensors_start_a_new_search() -> None:
    """The step times may be as they were, although the fused tensors differ. The check comes first."""
    target = ChangingTarget(lambda _: 0.0, tensor_set=77)

    job = tune_for(target, hours=3)

    assert 3 == len(job.runs)
    assert "other tensors" in job.observer.warnings[0]
    changed = [look for look in job.samples(Phase.WATCH) if look.reason == VoidReason.TENSOR_SET_CHANGED.value]
    assert 0 < len(changed) <= 4 * 2
    assert job.verdicts[1].startswith("still adopted: ")


def test_tensors_that_change_during_the_search_end_it_without_a_mixture() -> None:
    """The samples of both cannot be compared: the default stays until a search over the new ones has decided."""

    class Restless(SyntheticTarget):
        """Reduces other tensors from the thirtieth window on."""

        def windows(self, spec: WindowSpec) -> Iterator[Window]:
            """Yield windows."""
            for window in super().windows(spec):
                yield replace(window, tensor_set=1 if self._windows < 15 else 2)

    target = Restless(baseline=poor_baseline(), seed=2)

    job = tune_for(target, hours=2)

    assert "keeping default: the job reduces other tensors than when tuning began" == job.verdicts[0]
    assert job.verdicts[1].startswith("adopted: ")
    assert 2 == len(job.runs)


def test_pauses_and_void_windows_are_no_drift() -> None:
    """A third of all windows is void, and no search follows."""
    target = ChangingTarget(lambda _: 0.0, disturbances=Disturbances(void={VoidReason.PAUSE: 0.33}))

    job = tune_for(target, hours=6)

    assert 1 == len(job.runs)


def test_long_pauses_are_no_drift_either() -> None:
    """An hour of evaluation, whose steps take three times as long, is void windows and no more."""

    class Evaluating(ChangingTarget):
        """Evaluates from CHANGE_S on, for an hour."""

        def windows(self, spec: WindowSpec) -> Iterator[Window]:
            """Yield windows."""
            for window in super().windows(spec):
                if CHANGE_S < self.now_s < 2 * CHANGE_S:
                    step_ms = tuple(3 * ms for ms in window.step_ms)
                    yield replace(window, step_ms=step_ms, void_reason=VoidReason.PAUSE)
                else:
                    yield window

    job = tune_for(Evaluating(lambda _: 0.0), hours=3)

    assert 1 == len(job.runs)
    assert 50 < sum(not look.valid for look in job.samples(Phase.WATCH))


def test_a_job_that_has_spent_its_share_only_watches() -> None:
    """A job that has spent its share only watches, whatever changes."""
    job = tune_for(ChangingTarget(late_optimum), hours=3, spent_s=POLICY.exploration_share * 4 * HOUR_S)

    assert 1 == len(job.runs)
    assert [] == job.observer.warnings


def test_what_a_search_has_cost_is_on_the_jobs_account() -> None:
    """The costs of slower candidates than the built-in default are on the job's account."""
    target = SyntheticTarget(seed=0)
    account = ExplorationAccount(target.clock())
    made = make_designer("random", target.space(), 0)
    log, observer = RecordingLog(), RecordingObserver()

    result = TuningRun(target, made, RunSettings(), log, observer, clock=target.clock, account=account).run()

    assert account.spent_s == result.cost_s > 0


def test_checks_and_searches_become_rarer_and_cost_little() -> None:
    """The speed of everything doubles and halves every 20 minutes: still at most 3 % is spent, ever more seldom."""

    def swinging(config: Config) -> float:
        return math.log(2.0) * (int(target.now_s / 1200.0) % 2) + (0.2 if config == poor_baseline() else 0.0)

    target = SyntheticTarget(surface=lambda c: engine_like_surface(c) + swinging(c), baseline=poor_baseline(), seed=4)

    job = tune_for(target, hours=24)

    begins = [run.t_s for run in job.runs]
    ends = [result.t_s for result in job.results]
    assert 3 <= len(begins) <= 2 + 2 * math.log2(24 * HOUR_S / BACK_OFF_S)
    assert sum(max(result.cost_s, 0.0) for result in job.results[1:]) < POLICY.exploration_share * 24 * HOUR_S
    assert max(ends) < HOUR_S


def test_nothing_to_tune_is_not_watched() -> None:
    """A run with every knob fixed is over at once."""
    space = search_space(dict(default_config()), default_config())

    job = tune_for(SyntheticTarget(space=space), hours=1)

    assert [] == job.samples(Phase.WATCH)
    assert 1 == len(job.verdicts)


def test_an_earlier_search_of_the_job_is_the_next_ones_prior() -> None:
    """The first suggestion on a machine slower by half is near the best, thanks to the earlier search."""
    target = SyntheticTarget(baseline=poor_baseline(), seed=5)
    space = target.space()
    log, observer = RecordingLog(), RecordingObserver()
    run = TuningRun(target, make_designer("gp", space, 0), RunSettings(), log, observer, clock=target.clock)
    run.run()
    slower = measured_trial(0, poor_baseline(), [1.5 * math.exp(engine_like_surface(poor_baseline()))] * 3)

    designer = make_designer("gp", space, 1, study_of(space, run.trials, 0))
    designer.update([slower])
    suggested = designer.suggest().config

    best = max(target.true_speedup(config) for config in coarse_grid(space, 3))
    assert target.true_speedup(suggested) > 0.7 * best


def test_too_few_trials_are_no_prior() -> None:
    """A few trials, and configs that are not legal any more, are no prior."""
    assert () == study_of(search_space({}, default_config()), (), 0)


def test_steps_are_counted_apart_from_the_looks() -> None:
    """The result of a run was written before the watch: its steps do not grow with it."""
    job = tune_for(ChangingTarget(lambda _: 0.0), hours=2)

    looks = job.samples(Phase.WATCH)
    result = job.observer.results[0]
    measured = sum(r.steps for r in job.records if isinstance(r, SampleRecord) and r.phase != Phase.WATCH)
    assert looks
    assert measured <= result.steps <= measured + POLICY.settle_steps * 60
    assert pytest.approx(result.seconds, abs=2 * LOOK_EVERY_S) == looks[0].t_s
