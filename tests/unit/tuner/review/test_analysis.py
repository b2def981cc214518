# SPDX-License-Identifier: Apache-2.0
"""Tests of the inferences from a run, on a target whose surface and noise are known."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from ringtune.tuner import VoidReason
from ringtune.tuner.review import RunReview, analyse, review_log
from ringtune.tuner.review.sensitivity import DOES_NOT_MATTER, MATTERS, MAY_MATTER, Sensitivity, Slice
from ringtune.tuner.review.surrogate import MAX_WINDOWS, SpeedUpInterval, fit_surrogate
from ringtune.tuner.testing import Disturbances, SyntheticTarget, engine_like_surface, flat_surface, poor_baseline
from tests.unit.tuner.review.logs import HOROVOD, logged, reviewed

NOISE = 0.03


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunReview:
    """Return a run of forty samples from a poor baseline."""
    path = tmp_path_factory.mktemp("analysis") / "x.jsonl"
    logged(path, max_samples=40)
    return review_log(path).runs[0]


def by_name(items: tuple[Sensitivity, ...]) -> dict[str, Sensitivity]:
    """Return the effects by parameter."""
    return {item.name: item for item in items}


def test_what_matters_is_found_and_its_true_effect_lies_in_the_interval(run: RunReview) -> None:
    """Fusion costs e^0.6 - 1 when it is off; the cache costs 6 %, and the chosen config says of which values."""
    effects = by_name(analyse(run).sensitivities)
    centre = run.chosen
    assert centre is not None

    for item in effects.values():
        best, worst = (centre.replace({item.name: value}) for value in (item.best, item.worst))
        truth = math.expm1(engine_like_surface(worst) - engine_like_surface(best))
        assert item.effect.low - 0.02 <= truth <= item.effect.high + 0.02, item.name
    assert (MATTERS, 0) == (effects["fusion_bytes"].finding, effects["fusion_bytes"].worst)
    assert "chunk_bytes" not in [name for name, item in effects.items() if item.effect.fraction > 0.3]


@pytest.mark.parametrize("seed", range(5))
def test_on_a_flat_surface_nothing_matters(tmp_path: Path, seed: int) -> None:
    """No parameter is found to matter, and the best config leads by less than two in a hundred, by noise alone."""
    logged(tmp_path / "x.jsonl", target=SyntheticTarget(surface=flat_surface, seed=seed))

    analysis = analyse(review_log(tmp_path / "x.jsonl").runs[0])

    assert [] == [item.name for item in analysis.sensitivities if item.finding == MATTERS]
    assert analysis.gap is not None
    assert abs(analysis.gap.fraction) < 0.02


def test_the_noise_between_windows_is_that_of_the_machine(tmp_path: Path) -> None:
    """Windows that differ by 3 % are said to differ by about 3 %, and that longer windows do not help."""
    disturbances = Disturbances(step_noise=0.01, window_noise=NOISE)
    logged(tmp_path / "x.jsonl", target=SyntheticTarget(disturbances=disturbances, seed=2), max_samples=30)

    noise = analyse(review_log(tmp_path / "x.jsonl").runs[0]).noise

    assert noise is not None
    assert pytest.approx(NOISE, rel=0.4) == noise.between
    assert noise.between <= noise.window < 1.2 * noise.between


def test_a_machine_that_slows_down_is_noticed(tmp_path: Path) -> None:
    """The baseline's windows get slower by a known rate; the drift's interval has it and leaves out zero."""
    rate_per_s = 0.002
    target = SyntheticTarget(baseline=poor_baseline(), seed=3)
    surface = target._surface
    target._surface = lambda config: surface(config) + rate_per_s * target.now_s
    logged(tmp_path / "x.jsonl", target=target)

    drift = analyse(review_log(tmp_path / "x.jsonl").runs[0]).drift

    assert drift is not None
    assert drift.is_certain
    assert drift.change.low < math.expm1(-rate_per_s * drift.seconds) < drift.change.high < 0


def test_a_steady_machine_does_not_drift(run: RunReview) -> None:
    """The interval has zero in it."""
    drift = analyse(run).drift

    assert drift is not None
    assert drift.change.low < 0 < drift.change.high
    assert not drift.is_certain


@pytest.mark.parametrize("far_s", [1e200, 1e308])
def test_a_time_beyond_all_measure_is_no_obstacle(run: RunReview, far_s: float) -> None:
    """A damaged log may have one that cannot be squared, or two whose distance is no number."""
    windows = run.windows_of(run.baseline)
    times = {id(windows[0]): -far_s, id(windows[-1]): far_s}
    tried = tuple(replace(sample, t_s=times.get(id(sample), sample.t_s)) for sample in run.tried)

    drift = analyse(replace(run, tried=tried)).drift

    assert (far_s < 1e300) == (drift is not None)
    assert drift is None or math.isfinite(drift.change.fraction)


def test_improvements_get_better_and_end_in_the_fastest_trial(run: RunReview) -> None:
    """The baseline comes first."""
    analysis = analyse(run)

    times = [trial.log_time or 0.0 for _, trial in analysis.improvements]
    assert 0 == analysis.improvements[0][1].trial_id
    assert sorted(times, reverse=True) == times
    assert min(t.log_time for t in analysis.trials if t.log_time is not None) == times[-1]


def test_void_windows_are_counted_by_reason(tmp_path: Path) -> None:
    """Each trial's void windows are counted by reason."""
    disturbances = Disturbances(void={VoidReason.PAUSE: 0.3})
    logged(tmp_path / "x.jsonl", target=SyntheticTarget(disturbances=disturbances, seed=1), max_samples=8)
    run = review_log(tmp_path / "x.jsonl").runs[0]

    trials = analyse(run).trials

    assert (
        sum(sample.reason == "pause" for sample in run.tried) == sum(trial.void.get("pause", 0) for trial in trials) > 0
    )


def test_scores_alone_are_enough_for_a_model(tmp_path: Path) -> None:
    """Horovod's log has no step times; long cycles are worse there all the same."""
    analysis = analyse(reviewed(tmp_path / "h.csv", HOROVOD))

    effects = by_name(analysis.sensitivities)
    assert effects["cycle_ms"].best == pytest.approx(5, abs=3)
    assert effects["cycle_ms"].worst > 50  # type: ignore[operator]
    assert (None, None) == (analysis.gap, analysis.drift)


def test_a_model_needs_several_configs(tmp_path: Path) -> None:
    """Two windows give no model, and do not raise."""
    run = reviewed(tmp_path / "h.csv", "\n".join(HOROVOD.splitlines()[:3]) + "\n")

    assert fit_surrogate(run) is None
    assert () == analyse(run).sensitivities


def test_of_very_many_windows_some_of_each_config_are_fitted(tmp_path: Path) -> None:
    """The fit stays quick, whatever the size of the log."""
    header = HOROVOD.splitlines()[0]
    rows = [f"0,0,0, 1,{1 + index % 40},{4 + index % 3},{300 + index % 7}" for index in range(2000)]
    run = reviewed(tmp_path / "h.csv", "\n".join([header, *rows]) + "\n")

    surrogate = fit_surrogate(run)

    assert surrogate is not None
    assert 40 <= surrogate.window_count <= MAX_WINDOWS
    assert 120 == len({sample.config for sample in run.tried})


def test_a_slice_covers_what_was_tried(run: RunReview) -> None:
    """Values beside the numbers come first; no number lies outside of those tried."""
    surrogate = fit_surrogate(run)
    assert surrogate is not None
    parameter = next(p for p in surrogate.varied if p.name == "fusion_bytes")
    tried = [int(config["fusion_bytes"]) for config in surrogate.configs]

    values = [int(value) for value in surrogate.slice_values(parameter)]

    assert 0 == values[0]
    assert sorted(values) == values
    assert max(tried) == values[-1]
    assert min(value for value in tried if value) == values[1]


def test_best_and_worst_are_values_that_were_tried(run: RunReview) -> None:
    """The figure's grid has values between them; the table names only those that were measured."""
    surrogate = fit_surrogate(run)
    assert surrogate is not None

    for item in analyse(run).sensitivities:
        tried = {config[item.name] for config in surrogate.configs}
        assert {item.best, item.worst} <= tried
        assert len(tried) == item.tried


@pytest.mark.parametrize(
    ("effect", "finding"),
    [
        ((0.05, 0.01, 0.09), MATTERS),
        ((0.016, 0.005, 0.026), MAY_MATTER),
        ((0.01, 0.002, 0.018), DOES_NOT_MATTER),
        ((0.05, -0.01, 0.11), MAY_MATTER),
    ],
)
def test_an_effect_too_small_for_a_search_is_not_said_to_matter(
    effect: tuple[float, float, float], finding: str
) -> None:
    """Noise alone puts one interval in ten above zero, and of many parameters one has it."""
    item = Sensitivity("a", 1, 2, SpeedUpInterval(*effect), 2, Slice("a", (), ()))

    assert finding == item.finding
