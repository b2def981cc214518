# SPDX-License-Identifier: Apache-2.0
"""Tests of the advice: each sentence appears where it is due, names the setting, and appears nowhere else."""

from dataclasses import replace
from pathlib import Path

import pytest

from ringtune.tuner import VoidReason
from ringtune.tuner.review import Analysis, RunReview, advice, analyse, review_log
from ringtune.tuner.review.analysis import Drift, RepeatNoise
from ringtune.tuner.review.surrogate import SpeedUpInterval
from ringtune.tuner.testing import Disturbances, SyntheticTarget, flat_surface
from tests.unit.tuner.review.logs import BAGUA, HOROVOD, logged, reviewed


@pytest.fixture(scope="module")
def flat(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunReview, Analysis]:
    """Return a finished run on a flat surface, and its analysis."""
    path = tmp_path_factory.mktemp("advice") / "x.jsonl"
    logged(path, target=SyntheticTarget(surface=flat_surface, seed=3))
    run = review_log(path).runs[0]
    return run, analyse(run)


def sentences(run: RunReview, analysis: Analysis) -> str:
    """Return all advice as one text."""
    return "\n".join(advice(run, analysis))


def test_noise_above_the_gap_asks_for_longer_windows(flat: tuple[RunReview, Analysis]) -> None:
    """The advice has noise and gap, and the number of steps that would do."""
    run, analysis = flat
    noisy = replace(analysis, noise=RepeatNoise(window=0.06, between=0.01), gap=SpeedUpInterval(0.02, -0.04, 0.08))

    text = sentences(run, noisy)

    steps = next(sample.steps for sample in run.tried if sample.phase == "search")
    assert f"raise AUTOTUNE_STEPS_PER_SAMPLE from {steps} to {9 * steps}: noise is 6.0 %, more than" in text
    assert "AUTOTUNE_STEPS_PER_SAMPLE" not in sentences(replace(run, adopted=True), noisy)
    assert "AUTOTUNE_STEPS_PER_SAMPLE" not in sentences(run, replace(noisy, gap=SpeedUpInterval(0.08, 0.06, 0.1)))


def test_noise_between_windows_does_not(flat: tuple[RunReview, Analysis]) -> None:
    """Longer windows would not help."""
    run, analysis = flat
    noisy = replace(analysis, noise=RepeatNoise(window=0.06, between=0.059), gap=SpeedUpInterval(0.02, -0.04, 0.08))

    assert "longer ones help little" in sentences(run, noisy)
    assert "AUTOTUNE_STEPS_PER_SAMPLE" not in sentences(run, noisy)


def test_a_flat_surface_ends_in_leaving_it_alone(flat: tuple[RunReview, Analysis]) -> None:
    """Another run would find no gain again."""
    run, analysis = flat

    assert "leave AUTOTUNE out of this job" in sentences(run, replace(analysis, gap=SpeedUpInterval(0.0, 0.0, 0.0)))


def test_a_switch_that_never_helped_is_to_be_fixed(tmp_path: Path) -> None:
    """The response cache off costs 6 % in this target: the sentence says how many samples fixing it saves."""
    logged(tmp_path / "x.jsonl", target=SyntheticTarget(seed=5), max_samples=16)
    run = review_log(tmp_path / "x.jsonl").runs[0]
    analysis = analyse(run)

    off = sum(trial.config["response_cache"] is False for trial in analysis.trials)
    assert 2 <= off
    expected = (
        f"response_cache off never helped in {off} trials; fix it (RINGTUNE_RESPONSE_CACHE=1) to save {off} samples"
    )
    assert expected in advice(run, analysis)


@pytest.fixture(scope="module")
def steep(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunReview, Analysis]:
    """Return a finished run in which the response cache off was tried and never helped, and its analysis."""
    path = tmp_path_factory.mktemp("advice") / "x.jsonl"
    logged(path, target=SyntheticTarget(seed=5), max_samples=16)
    run = review_log(path).runs[0]
    analysis = analyse(run)
    assert "response_cache off never helped" in sentences(run, analysis)
    return run, analysis


def test_what_was_chosen_is_not_called_useless(steep: tuple[RunReview, Analysis]) -> None:
    """The decision rests on pairs, the sentence on a model over windows."""
    run, analysis = steep
    assert run.baseline is not None
    off = run.baseline.replace({"response_cache": False})

    assert "response_cache" not in sentences(replace(run, chosen=off, adopted=True), analysis)


def test_what_does_not_matter_is_to_be_fixed_as_it_was_chosen(steep: tuple[RunReview, Analysis]) -> None:
    """The advice keeps the chosen value, as the settings to paste do."""
    run, analysis = steep
    item = next(item for item in analysis.sensitivities if item.name == "cycle_ms")
    inert = replace(analysis, sensitivities=(replace(item, effect=SpeedUpInterval(0.001, -0.002, 0.004)),))
    assert run.chosen is not None

    texts = [
        sentences(replace(run, chosen=run.chosen.replace({"cycle_ms": value}), adopted=True), inert)
        for value in (2.5, 40.0)
    ]

    assert "(RINGTUNE_CYCLE_MS=2.5)" in texts[0]
    assert "(RINGTUNE_CYCLE_MS=40)" in texts[1]


def test_a_run_that_goes_on_or_is_not_to_be_repeated_gets_no_advice_for_a_search(
    steep: tuple[RunReview, Analysis],
) -> None:
    """A fixed knob is another search space: the run would begin anew. Without a search there is no time to save."""
    run, analysis = steep
    kept = replace(run, adopted=False, chosen=run.baseline)

    unfinished = sentences(replace(kept, is_complete=False, chosen=None), analysis)
    flat = sentences(kept, replace(analysis, gap=SpeedUpInterval(0.0, 0.0, 0.0)))

    assert "start the job again with the same AUTOTUNE_LOG" in unfinished
    assert "leave AUTOTUNE out" in flat
    assert "fix it" not in unfinished + flat


def test_what_promises_something_is_not_called_flat(flat: tuple[RunReview, Analysis]) -> None:
    """A config of the service that one job has tested is not the default, whatever the windows say."""
    run, analysis = flat
    assert run.baseline is not None
    promising = replace(run, chosen=run.baseline.replace({"cycle_ms": 2.5}), speedup=0.05)

    assert "leave AUTOTUNE out" not in sentences(promising, replace(analysis, gap=SpeedUpInterval(0.0, 0.0, 0.0)))


def test_drift_is_told_where_it_is_certain(flat: tuple[RunReview, Analysis]) -> None:
    """Chance is not."""
    run, analysis = flat
    certain = replace(analysis, drift=Drift(SpeedUpInterval(-0.08, -0.11, -0.05), 60.0, 9))
    chance = replace(analysis, drift=Drift(SpeedUpInterval(-0.08, -0.19, 0.02), 60.0, 9))

    assert "it became 8.0 % slower under one config in 60 s; look for" in sentences(replace(run, pairs=0), certain)
    assert "believe the pairs of the adoption test" in sentences(replace(run, pairs=6), certain)
    assert "drift" not in sentences(run, chance)


def test_many_void_windows_come_with_their_cause(tmp_path: Path) -> None:
    """Pauses inside windows are the job's evaluation."""
    disturbances = Disturbances(void={VoidReason.PAUSE: 0.4})
    logged(tmp_path / "x.jsonl", target=SyntheticTarget(disturbances=disturbances, seed=1), max_samples=6)
    run = review_log(tmp_path / "x.jsonl").runs[0]

    assert "were void (pause): the job pauses inside windows" in sentences(run, analyse(run))


def test_an_unfinished_run_can_be_resumed(tmp_path: Path) -> None:
    """The advice names the log."""
    logged(tmp_path / "x.jsonl", target=SyntheticTarget(disturbances=Disturbances(closes_after_windows=14)))
    run = review_log(tmp_path / "x.jsonl").runs[0]

    assert "start the job again with the same AUTOTUNE_LOG" in sentences(run, analyse(run))


def test_horovods_lucky_row_is_unmasked(tmp_path: Path) -> None:
    """One row scores far above its neighbours at the same settings: all rows together do not believe it."""
    header = HOROVOD.splitlines()[0]
    scores = [300, 305, 298, 310, 690, 303, 301, 220, 140]
    cycles = [20, 20.1, 20.2, 19.9, 20.05, 19.8, 20.3, 50, 90]
    rows = [f"0,0,0, 1,{cycle},58,{score}" for cycle, score in zip(cycles, scores, strict=True)]
    run = reviewed(tmp_path / "h.csv", "\n".join([header, *rows, rows[4]]) + "\n")

    text = sentences(run, analyse(run))

    assert "the chosen row scored 690 MB/s, all rows together expect 3" in text
    assert "part of it was luck" in text
    assert "measure the default too" in text


def test_baguas_dead_knob_is_named(tmp_path: Path) -> None:
    """Half of its search space reaches no worker."""
    run = reviewed(tmp_path / "b.log", BAGUA)

    assert "reaches no worker" in sentences(run, analyse(run))
