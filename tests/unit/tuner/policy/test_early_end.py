# SPDX-License-Identifier: Apache-2.0
"""Runs that end before a decision: the best so far, its certainty, the missing budget, and the setting to raise."""

import math
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from ringtune.tuner import (
    Config,
    Phase,
    Prediction,
    RunSettings,
    SearchSpace,
    Suggestion,
    TargetClosed,
    Trial,
    TuningRun,
    Window,
    WindowSpec,
    make_designer,
    open_log,
)
from ringtune.tuner.designers.random import RandomDesigner
from ringtune.tuner.logs.records import EndRecord
from ringtune.tuner.policy.early_end import Needed, SoFar, best_text, needed, needed_text, rounded_up, windows_interval
from ringtune.tuner.policy.value import Gain
from ringtune.tuner.review import review_log, settings_to_paste
from ringtune.tuner.statistics.paired_test import Interval
from ringtune.tuner.testing import Disturbances, SyntheticTarget, flat_surface, measured_trial, poor_baseline
from tests.unit.tuner.recording import RecordingLog, RecordingObserver, tune

BASELINE = Config({"fusion_bytes": 0, "cycle_ms": 20.0})
OTHER = BASELINE.replace({"cycle_ms": 1.0})
NEEDED = r"\d+ steps or \d+ s in all"
MISSING = rf"A verdict would have needed about (\d more configs? and )?\d+ more pairs?: {NEEDED}\."


def stood(**changes: object) -> SoFar:
    """Return a search of four windows of ten steps, of 10 s in all, in which one config is 20 % faster."""
    trials = (measured_trial(0, BASELINE, [120.0, 120.0]), measured_trial(1, OTHER, [100.0, 100.0]))
    standing = SoFar(
        trials=trials,
        baseline=BASELINE,
        phase=Phase.SEARCH,
        best=OTHER,
        interval=Interval(0.2, 0.18, 0.22),
        pairs=0,
        most_pairs=12,
        steps=80,
        measured_steps=40,
        seconds=10.0,
        sample_steps=10,
        pair_steps=10,
    )
    return replace(standing, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("windows", [1, 4, 6, 7, 9, 12, 18, 24])
@pytest.mark.parametrize("designer", ["gp", "random"])
def test_a_job_that_ends_first_says_how_far_it_was(designer: str, windows: int) -> None:
    """After each window: the phase, the time, the best so far, the missing budget, and the variables."""
    target = SyntheticTarget(baseline=poor_baseline(), disturbances=Disturbances(closes_after_windows=windows), seed=1)

    outcome = tune(target, make_designer(designer, target.space(), 0))

    verdict = outcome.result.verdict
    assert re.match(r"unfinished: the job ended in the \w+ phase of tuning, after \d+ steps, [\d.]+ s\. ", verdict)
    best = re.search(r"s\. (Nothing|The best so far is the default|Best so far: )", verdict)
    assert best is not None, verdict
    assert re.search(f"{MISSING}|A verdict takes some 200 steps|the test has 12", verdict), verdict
    assert "Set AUTOTUNE_MAX_STEPS or AUTOTUNE_MAX_SECONDS to less than the job takes" in verdict
    assert isinstance(outcome.records[-1], EndRecord)
    assert not outcome.result.adopted
    assert outcome.result.speedup is None


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        (RunSettings(max_samples=None, max_steps=20), "AUTOTUNE_MAX_STEPS=20"),
        (RunSettings(max_samples=None, max_seconds=1.0), "AUTOTUNE_MAX_SECONDS=1"),
        (RunSettings(max_samples=None, max_steps=20, fixed_windows=True, warmup_steps=0), "--max-steps=20"),
    ],
)
def test_a_budget_that_is_too_small_is_named_with_what_was_needed(settings: RunSettings, name: str) -> None:
    """The verdict keeps the default, and names the limit and a sufficient value."""
    target = SyntheticTarget(baseline=poor_baseline(), disturbances=Disturbances(step_noise=0.02), seed=1)

    result = tune(target, settings=settings).result

    assert result.is_complete
    assert result.verdict.startswith("keeping default: ")
    used = rf"; [\d.]+ of {name} were used; the rest is kept for a paired test\. "
    assert re.search(used, result.verdict), result.verdict
    assert re.search(MISSING, result.verdict), result.verdict


def test_too_few_samples_are_named_too() -> None:
    """The search has looked at three configs of a flat surface: it cannot tell yet."""
    target = SyntheticTarget(surface=flat_surface, disturbances=Disturbances(step_noise=0.01), seed=1)

    verdict = tune(target, settings=RunSettings(max_samples=3)).result.verdict

    assert "; AUTOTUNE_MAX_SAMPLES=3 was spent first. " in verdict
    assert re.search(r"[Bb]est so far", verdict), verdict
    assert re.search(rf"{MISSING}|would need about \d+ more pairs; the test has 12", verdict), verdict


class Believer:
    """Expects one config to be 5 % faster than all others, and never suggests another one."""

    name = "believer"

    def __init__(self, config: Config) -> None:
        self._config = config

    def update(self, trials: Sequence[Trial]) -> None:
        """Ignore the trials."""

    def suggest(self) -> Suggestion:
        """Suggest it."""
        return Suggestion(self._config)

    def predict(self, configs: Sequence[Config]) -> Prediction:
        """Return the constant prediction."""
        means = np.array([3.90 if config == self._config else 3.95 for config in configs])
        return Prediction(means, np.full(len(configs), 0.01))


def test_a_test_that_had_no_time_to_tell_says_how_many_pairs_it_lacked() -> None:
    """A config that is no better, amid much noise: the pairs' interval stands, and more of them were needed."""
    verdicts = []
    for seed in range(8):
        target = SyntheticTarget(surface=flat_surface, disturbances=Disturbances(step_noise=0.1), seed=seed)
        believer = Believer(target.baseline().replace({"cycle_ms": 1.25}))
        settings = RunSettings(max_steps=150, max_samples=2, warmup_steps=0, steps_per_sample=10)
        verdict = tune(target, believer, settings).result.verdict
        if "of AUTOTUNE_MAX_STEPS=150 were used; no further pair fits the rest" in verdict:
            verdicts.append(verdict)

    assert len(verdicts) >= 3, "most of these tests have too few pairs"
    for verdict in verdicts:
        assert re.search(r"speed-up -\d+\.\d+ % to \+\d+\.\d+ %, \d+ pairs\); \d+ of AUTOTUNE_MAX", verdict), verdict
        assert re.search(r"of its speed-up [^ ]+ % to [^ ]+ %, by \d+ pairs\. A verdict", verdict), verdict
        assert re.search(r"would (have needed|need) about \d+ more pairs?", verdict), verdict


@pytest.mark.parametrize("windows", [0, 4, 12])
def test_whoever_ends_tuning_gives_the_reason(windows: int) -> None:
    """The job goes on: the verdict names the reason, and does not advise to give the tuner less time than the job."""
    target = SyntheticTarget(baseline=poor_baseline(), disturbances=Disturbances(closes_after_windows=windows), seed=1)
    log, reason = RecordingLog(), "the memory of a rank was 3 MiB above its limit"
    designer = make_designer("random", target.space(), 0)

    run = TuningRun(target, designer, RunSettings(), log, RecordingObserver(), end_reason=lambda: reason)
    result = run.run()

    assert result.verdict.startswith(f"unfinished: {reason}. This ended the "), result.verdict
    assert "the job ended" not in result.verdict
    assert "AUTOTUNE_MAX" not in result.verdict
    assert isinstance(log.records[-1], EndRecord)
    assert result.verdict == log.records[-1].verdict


def test_a_decision_that_is_given_up_later_is_no_longer_the_verdict(tmp_path: Path) -> None:
    """The settings fell back while they were watched: log and review say so, and offer no settings to paste."""
    target = SyntheticTarget(baseline=poor_baseline(), seed=1)
    log, is_over = open_log(tmp_path / "x.jsonl"), threading.Event()
    target.windows = partial(_closed_once, target.windows, is_over)  # type: ignore[method-assign]
    designer = make_designer("random", target.space(), 0)
    run = TuningRun(target, designer, RunSettings(), log, RecordingObserver(), end_reason=lambda: "too little memory")

    adopted = run.run()
    is_over.set()
    with pytest.raises(TargetClosed):
        run.watch(lambda _: None, lambda: True)
    log.close()

    (reviewed,) = review_log(tmp_path / "x.jsonl").runs
    assert adopted.adopted
    assert f"no longer in force: too little memory. Before that: {adopted.verdict}" == reviewed.verdict
    assert not reviewed.adopted
    assert [] == settings_to_paste(reviewed)


def _closed_once(
    windows: Callable[[WindowSpec], Iterator[Window]], is_over: threading.Event, spec: WindowSpec
) -> Iterator[Window]:
    """Yield windows until the event is set."""
    for window in windows(spec):
        if is_over.is_set():
            raise TargetClosed("too little memory")
        yield window


class Pondering(RandomDesigner):
    """Ends the job while it thinks, and goes on thinking until the test is over."""

    def __init__(self, space: SearchSpace, is_over: threading.Event, may_end: threading.Event) -> None:
        super().__init__(space, 0)
        self._is_over, self._may_end = is_over, may_end

    def suggest(self) -> Suggestion:
        """Never answer while the job lasts."""
        self._is_over.set()
        self._may_end.wait()
        return super().suggest()


def test_a_job_that_ends_while_the_designer_thinks_is_told_at_once() -> None:
    """The run does not wait for the answer: its last words come while the designer is still thinking."""
    target, is_over, may_end = SyntheticTarget(seed=1), threading.Event(), threading.Event()
    observer = RecordingObserver()
    run = TuningRun(
        target,
        Pondering(target.space(), is_over, may_end),
        RunSettings(),
        open_log(None),
        observer,
        clock=target.clock,
        is_over=is_over.is_set,
    )

    try:
        result = run.run()
    finally:
        may_end.set()

    assert result.verdict.startswith("unfinished: the job ended in the search phase"), result.verdict
    assert not run.has_failed


def test_what_is_needed_is_the_rest_of_a_search_and_the_pairs_of_a_test() -> None:
    """Eight configs of 12 steps and 2 pairs of 22 with 2 to settle: 142 steps after 40, at the pace so far."""
    assert Needed(samples=8, pairs=2, steps=370, seconds=46, can_be_shown=True) == needed(stood())


def test_after_the_search_pairs_alone_are_needed() -> None:
    """One pair of two is done."""
    assert Needed(samples=0, pairs=1, steps=130, seconds=16, can_be_shown=True) == needed(
        stood(phase=Phase.ADOPTION, pairs=1)
    )


@pytest.mark.parametrize(
    ("interval", "gain"), [(Interval(0.001, -0.22, 0.66), "0.1 %"), (Interval(-0.1, -0.3, 0.1), "5.0 %")]
)
def test_a_gain_that_no_test_shows_is_named(interval: Interval, gain: str) -> None:
    """A tenth of a percent, or a usual gain, amid windows that differ by more: the test has not enough pairs."""
    trials = tuple(measured_trial(t.trial_id, t.config, [80.0, 160.0]) for t in stood().trials)

    text = needed_text(stood(interval=interval, trials=trials))

    assert f"A verdict on a gain of {gain} amid this noise would need about 100 more pairs; the test has 12." == text


def test_nothing_is_said_to_be_better_before_it_is() -> None:
    """Before the baseline's first window, before another config's, and while none is better."""
    baseline, other = stood().trials

    assert "Nothing was measured yet." == best_text(stood(trials=(), interval=None))
    assert "Nothing but the default was measured yet." == best_text(stood(trials=(baseline,), interval=None))
    assert "The best so far is the default: none of 1 other config is expected to be faster." == best_text(
        stood(best=BASELINE, interval=None)
    )
    assert needed(stood(trials=(other,))) is None


def test_one_window_gives_no_interval() -> None:
    """Three baseline windows agree by chance, and a single window of another config is three times as fast."""
    trials = (measured_trial(0, BASELINE, [103.7, 110.9, 111.3]), measured_trial(1, OTHER, [33.0]))

    interval = windows_interval(trials, BASELINE, OTHER, Gain(1.2, 0.05))
    text = best_text(stood(trials=trials, interval=interval))

    assert interval is None
    assert "Best so far: cycle_ms 1 ms (was 20 ms); one window, not tested." == text
    assert "a gain of 5.0 %" in needed_text(stood(trials=trials, interval=None, most_pairs=2))


def test_an_untested_interval_contains_drift_between_windows() -> None:
    """Two windows that agree with each other, as those of the baseline do, may both have met an idle machine."""
    trials = (measured_trial(0, BASELINE, [110.0, 110.2, 110.1]), measured_trial(1, OTHER, [100.0, 100.1]))

    interval = windows_interval(trials, BASELINE, OTHER, Gain(math.log(1.1), 0.001))

    assert interval is not None
    assert interval.low < 0.0
    assert interval.high > 0.1


def test_windows_tell_of_a_config_by_both_sides_scatter() -> None:
    """The interval lies around the ratio, and more windows make it narrower."""
    few = windows_interval(stood().trials, BASELINE, OTHER)
    many = windows_interval(
        (measured_trial(0, BASELINE, [120.0] * 8), measured_trial(1, OTHER, [100.0] * 8)), BASELINE, OTHER
    )

    assert few is not None
    assert many is not None
    assert pytest.approx(0.2) == few.speedup
    assert few.low < many.low < 0.2 < many.high < few.high
    assert windows_interval(stood().trials, BASELINE, BASELINE) is None


@pytest.mark.parametrize(
    ("number", "expected"), [(0.2, 1), (7.1, 8), (99.5, 100), (101, 110), (234, 240), (1001, 1100)]
)
def test_estimates_have_two_digits(number: float, expected: int) -> None:
    """An estimate is rounded up, since less would not have done."""
    assert expected == rounded_up(number)
