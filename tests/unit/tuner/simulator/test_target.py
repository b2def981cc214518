# SPDX-License-Identifier: Apache-2.0
"""Tests of the simulated job as a target: the protocol, the truth behind the noise, and whole tuning runs."""

import math
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

from ringtune.errors import ConfigError
from ringtune.tuner import (
    Config,
    Result,
    RunSettings,
    SpaceError,
    TargetClosed,
    TuningRun,
    VoidReason,
    WindowSpec,
    make_designer,
)
from ringtune.tuner.simulator import Cluster, Noise, SimulatedTarget, best_of, model_job, simulated_space
from ringtune.tuner.testing import coarse_grid
from tests.unit.tuner.recording import RecordingLog, RecordingObserver
from tests.unit.tuner.simulator.jobs import config_of, hosts_of

JOB = model_job("mobilenet_v2", 12.0, home_bytes=None)
POOR = config_of(fusion_bytes=0, cycle_ms=20.0)
EXACT = Noise.none()


def spec_of(epoch: int, steps: int = 10, *, settle_steps: int = 0, limit_ms: float = 0.0) -> WindowSpec:
    """Return the spec of a measurement."""
    return WindowSpec(epoch, settle_steps, steps, limit_ms)


def run(
    target: SimulatedTarget, designer: str = "random", *, max_samples: int = 6, seed: int = 0
) -> tuple[Result, RecordingObserver]:
    """Tune a target to the end."""
    observer, log = RecordingObserver(), RecordingLog()
    made = make_designer(designer, target.space(), seed)
    settings = RunSettings(max_samples=max_samples, seed=seed)
    return TuningRun(target, made, settings, log, observer, clock=target.clock).run(), observer


def test_without_noise_windows_have_the_true_time() -> None:
    """Every step takes exp(surface), and the clock goes on by it, settling steps included."""
    target = SimulatedTarget(JOB, Cluster(), noise=EXACT)
    epoch = target.apply(POOR)

    window = next(target.windows(spec_of(epoch, 5, settle_steps=3)))

    assert (target.step_ms(POOR),) * 5 == window.step_ms
    assert math.log(window.step_ms[0]) == target.surface(POOR)
    assert (epoch, JOB.bytes, None, False) == (
        window.epoch,
        window.bytes_per_step,
        window.void_reason,
        window.was_cut,
    )
    assert 8 * window.step_ms[0] * 1e-3 == pytest.approx(target.clock())


def test_the_first_window_settles_and_the_next_does_not() -> None:
    """Settling steps belong to a switch."""
    target = SimulatedTarget(JOB, Cluster(), noise=EXACT)
    windows = target.windows(spec_of(target.apply(POOR), 5, settle_steps=3))
    next(windows)
    before_s = target.clock()

    window = next(windows)

    assert sum(window.step_ms) * 1e-3 == pytest.approx(target.clock() - before_s)


def test_the_seed_decides_the_windows() -> None:
    """The same job twice, and once with another seed."""
    noise = Noise(late_chance=0.02, pause_chance=0.01, drift=0.05)
    drawn = []
    for seed in (1, 1, 2):
        target = SimulatedTarget(JOB, Cluster(), noise=noise, seed=seed)
        drawn.append(list(islice(target.windows(spec_of(target.apply(POOR))), 6)))

    assert drawn[0] == drawn[1] != drawn[2]


def test_noise_is_around_the_true_time() -> None:
    """The median of many windows is the surface's value."""
    target = SimulatedTarget(JOB, Cluster(), noise=Noise(step=0.05, window=0.01))
    windows = islice(target.windows(spec_of(target.apply(POOR))), 300)

    median_ms = float(np.median([time for window in windows for time in window.step_ms]))

    assert target.step_ms(POOR) == pytest.approx(median_ms, rel=0.01)


def test_true_speedup_is_the_ratio_of_step_times() -> None:
    """Against the baseline; the baseline's own is zero."""
    target = SimulatedTarget(JOB, Cluster(), baseline=POOR)
    config = config_of()

    assert 0.0 == target.true_speedup(POOR)
    assert math.expm1(target.surface(POOR) - target.surface(config)) == pytest.approx(target.true_speedup(config))
    assert target.true_speedup(config) > 0.0


def test_a_late_rank_delays_the_step() -> None:
    """The delay is little more than the rank's lateness where computing dominates, and monotone in it."""
    target = SimulatedTarget(JOB, Cluster())
    times = [target.step_ms(POOR, factor) for factor in (1.0, 1.25, 2.0, 4.0)]

    assert sorted(times) == times
    assert times[-1] - times[0] <= 1.1 * 3.0 * JOB.compute_ms


def test_late_ranks_show_in_the_windows() -> None:
    """If every step has one that takes far longer, so do the steps: here also beyond the simulated time."""
    target = SimulatedTarget(JOB, Cluster(), noise=Noise(0.0, 0.0, late_chance=1.0, late_factor=6.0))
    window = next(target.windows(spec_of(target.apply(POOR), 400)))

    excess = [(time - target.step_ms(POOR)) / JOB.compute_ms for time in window.step_ms]

    assert np.mean(excess) == pytest.approx(5.0 * 1.5, rel=0.15)  # the later of two exponentials


def test_a_slow_window_is_cut_after_three_steps() -> None:
    """Its first steps ran over the limit; only they pass on the clock."""
    target = SimulatedTarget(JOB, Cluster(), noise=EXACT)
    limit_ms = 0.9 * target.step_ms(POOR)

    window = next(target.windows(spec_of(target.apply(POOR), 20, limit_ms=limit_ms)))

    assert window.was_cut
    assert 3 == len(window.step_ms)
    assert 3 * target.step_ms(POOR) * 1e-3 == pytest.approx(target.clock())


@pytest.mark.parametrize(("pause_s", "reason"), [(30.0, VoidReason.PAUSE), (0.5, None)])
def test_a_pause_voids_its_window_if_it_is_long_enough(pause_s: float, reason: VoidReason | None) -> None:
    """Above 1 s and five steps; the clock goes on by all of them."""
    target = SimulatedTarget(JOB, Cluster(), noise=Noise(0.0, 0.0, pause_chance=1.0, pause_s=pause_s))

    window = next(target.windows(spec_of(target.apply(POOR), 4)))

    assert reason is window.void_reason
    assert 4 * pause_s + sum(window.step_ms) * 1e-3 == pytest.approx(target.clock())


def test_a_job_ends() -> None:
    """After its steps neither windows nor switches are to be had."""
    target = SimulatedTarget(JOB, Cluster(), closes_after_steps=25)
    windows = target.windows(spec_of(target.apply(POOR), 10))

    assert 3 == len(list(islice(windows, 3)))
    with pytest.raises(TargetClosed, match="is over"):
        next(windows)
    with pytest.raises(TargetClosed, match="is over"):
        target.apply(POOR)


def test_an_illegal_config_is_refused() -> None:
    """An illegal config never comes in force, as at the engine."""
    target = SimulatedTarget(JOB, Cluster())

    with pytest.raises(SpaceError, match="hierarchical_allreduce=True is not allowed"):
        target.apply(config_of(hierarchical_allreduce=True))
    assert [] == target.applied


def test_the_space_has_what_can_act_in_the_layout() -> None:
    """The hierarchical switch only between hosts with several ranks; fixed values nowhere."""

    def free(cluster: Cluster, **fixed: int) -> list[str]:
        return [parameter.name for parameter in simulated_space(cluster, config_of(**fixed), fixed).free]

    inside = ["fusion_bytes", "cycle_ms", "response_cache", "chunk_bytes"]
    assert inside == free(Cluster())
    assert inside == free(hosts_of(4, 1))
    assert {*inside, "hierarchical_allreduce"} == set(free(hosts_of(2, 2)))
    assert "chunk_bytes" not in free(Cluster(), chunk_bytes=65536)


def test_the_best_of_some_configs_is_the_quickest() -> None:
    """No other of the list is quicker; of equals the first."""
    target = SimulatedTarget(JOB, Cluster(), baseline=POOR)
    grid = coarse_grid(target.space(), 3)

    best, step_ms = target.best_of(grid)

    assert min(target.step_ms(config) for config in grid) == step_ms == target.step_ms(best)
    assert (grid[0], 1.0) == best_of(grid, lambda config: 1.0)
    with pytest.raises(ConfigError, match="no best of no configs"):
        target.best_of([])


@pytest.mark.parametrize("designer", ["random", "gp"])
def test_a_tuning_run_repairs_a_poor_baseline(designer: str) -> None:
    """To the end: something better is adopted, in force, and truly better."""
    cluster = hosts_of(2, 2, "1gbit")
    target = SimulatedTarget(JOB, cluster, noise=Noise(step=0.03, late_chance=1e-3), baseline=POOR, seed=3)

    result, observer = run(target, designer, max_samples=10, seed=1)

    assert result.is_complete
    assert result.adopted
    assert result.config == target.applied[-1] != POOR
    assert target.true_speedup(result.config) > 0.2
    assert [] == observer.warnings
    assert target.clock() > 0.0


def test_a_tuning_run_survives_everything_at_once() -> None:
    """Late ranks, pauses and drift: the run ends with a verdict, and without a warning."""
    noise = Noise(0.06, 0.02, late_chance=0.02, late_factor=2.0, pause_chance=2e-3, drift=0.05)
    target = SimulatedTarget(JOB, Cluster(1, 4, 2), noise=noise, seed=5)

    result, observer = run(target)

    assert result.verdict
    assert isinstance(result.config, Config)
    assert [] == observer.warnings


@pytest.mark.parametrize("max_seconds", [15.0, 60.0])
def test_a_simulated_job_decides_within_its_seconds(max_seconds: float) -> None:
    """Steps, settling and pauses go by on its clock; the poor default is found out in time."""
    target = SimulatedTarget(JOB, Cluster(), baseline=POOR, seed=1)
    settings = RunSettings(max_samples=None, max_seconds=max_seconds, seed=1)
    log, made = RecordingLog(), make_designer("gp", target.space(), 1)

    result = TuningRun(target, made, settings, log, RecordingObserver(), clock=target.clock).run()

    assert result.adopted, result.verdict
    assert 0.0 < target.now_s <= max_seconds


@pytest.mark.parametrize(("slow_link", "is_free"), [(1.0, False), (0.9, False), (0.5, True)])
def test_skew_is_in_the_space_where_links_differ(slow_link: float, is_free: bool) -> None:
    """Between even links no run can adopt it."""
    cluster = replace(hosts_of(3, 1, "1gbit"), slow_link=slow_link)

    space = simulated_space(cluster, config_of(), {})

    assert is_free is ("skew" in {parameter.name for parameter in space.free})
