# SPDX-License-Identifier: Apache-2.0
"""One rule cuts windows of bad configs, and one voids those with a pause: in the engine, under DDP, in the simulator.

The rule that cuts also holds in tests and in replayed tables.
"""

import math
from collections.abc import Callable, Sequence
from itertools import combinations_with_replacement, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.tuner.regret.problem import Problem
from benchmarks.tuner.regret.table import Table, TableProblem
from ringtune import _engine
from ringtune.tuner import (
    BooleanParameter,
    Config,
    SearchSpace,
    Target,
    VoidReason,
    Window,
    WindowSpec,
    is_over_limit,
    pauses,
)
from ringtune.tuner.cutting import LEAST_STEPS, steps_until_cut
from ringtune.tuner.policy_numbers import POLICY
from ringtune.tuner.simulator import Cluster, Noise, SimulatedTarget, model_job
from ringtune.tuner.testing import Disturbances, SyntheticTarget
from ringtune.tuning.job.windows import StepEnd, WindowBuilder

STEPS = st.lists(st.sampled_from([1.0, 2.0, 9.0, 10.0, 11.0, 30.0, 900.0]), max_size=12)
LIMITS = st.sampled_from([0.0, 1.5, 10.0, 25.0])


@pytest.mark.parametrize("limit_ms", [0.0, 1.5, 10.0, 25.0])
def test_the_engine_has_the_same_rule(limit_ms: float) -> None:
    """C++ and Python agree on all short series of such steps, ties and even numbers of steps included."""
    series = [list(steps) for count in range(6) for steps in product([1.0, 2.0, 10.0, 30.0], repeat=count)]

    differing = [steps for steps in series if _engine.is_over_limit(steps, limit_ms) != is_over_limit(steps, limit_ms)]

    assert [] == differing


@given(STEPS.filter(bool), LIMITS)
def test_a_whole_series_is_cut_where_step_by_step_it_would_be(step_ms: list[float], limit_ms: float) -> None:
    """The simulator cuts a whole series at the step where the engine cuts it step by step."""
    cuts = [n for n in range(1, len(step_ms)) if is_over_limit(step_ms[:n], limit_ms)]

    assert min(cuts, default=len(step_ms)) == steps_until_cut(step_ms, limit_ms)


def test_the_shortest_windows_can_be_cut_and_one_slow_step_never_cuts() -> None:
    """A window of five bad steps costs three; one of five steps that was slow costs nothing."""
    shortest = POLICY.least_window_steps
    bad, unlucky = [30.0] * shortest, [900.0] + [10.0] * (shortest - 1)

    assert LEAST_STEPS == steps_until_cut(bad, 20.0) < shortest
    assert shortest == steps_until_cut(unlucky, 20.0)


def ddp_window(step_ms: Sequence[float], limit_ms: float) -> Window:
    """Return the window that the tuner of DDP makes of these steps."""
    builder = WindowBuilder(4096, 1)
    builder.begin(WindowSpec(0, 0, len(step_ms), limit_ms))
    ends = [StepEnd(0, 0.0, 0)]
    for ms in step_ms:
        ends.append(StepEnd(ends[-1].step + 1, ends[-1].end_s + ms * 1e-3, 0))
    return next(window for window in map(builder.add, ends) if window is not None)


@given(STEPS.filter(bool), st.sampled_from([0.0, 1.7, 10.3, 25.3]))  # no median of these steps, for clocks round
def test_ddp_cuts_by_the_rule(step_ms: list[float], limit_ms: float) -> None:
    """Windows are closed as the rule says, and say whether they were cut."""
    window = ddp_window(step_ms, limit_ms)

    assert steps_until_cut(step_ms, limit_ms) == len(window.step_ms)
    assert window.was_cut == (len(window.step_ms) < len(step_ms))


def test_the_engine_has_the_same_numbers_for_pauses() -> None:
    """A number that changes in C++ alone would void other windows under DDP than under the engine."""
    for name in ("PAUSE_MEDIANS", "PAUSE_MIN_MS", "RECENT_STEPS", "MIN_RECENT_STEPS"):
        assert getattr(_engine, name) == getattr(pauses, name), name


def test_the_engine_has_the_same_rule_for_pauses() -> None:
    """C++ and Python agree for gaps at and beside both bounds, after too few steps, and after even numbers of them."""
    differing = [
        (gap_ms, recent_ms)
        for count in (0, pauses.MIN_RECENT_STEPS - 1, pauses.MIN_RECENT_STEPS, pauses.MIN_RECENT_STEPS + 1)
        for recent_ms in combinations_with_replacement([1.0, 100.0, 200.0, 400.0, 1000.0], count)
        for bound_ms in (1.0, pauses.PAUSE_MIN_MS, *(pauses.PAUSE_MEDIANS * ms for ms in (*recent_ms, 150.0, 300.0)))
        for gap_ms in (math.nextafter(bound_ms, 0.0), bound_ms, math.nextafter(bound_ms, math.inf))
        if _engine.is_pause(gap_ms, recent_ms) != pauses.is_pause(gap_ms, recent_ms)
    ]

    assert [] == differing


@given(st.lists(st.sampled_from([100.0, 300.0, 900.0, 1200.0, 2000.0, 7000.0]), min_size=1, max_size=100))
def test_ddp_voids_by_the_rule_for_pauses(gap_ms: list[float]) -> None:
    """A window ends at the first pause, before which the newest steps that were none are the usual ones."""
    kept: list[float] = []
    for gap in gap_ms:
        if _engine.is_pause(gap, kept[-_engine.RECENT_STEPS :]):
            break
        kept.append(gap)

    window = ddp_window(gap_ms, 0.0)

    assert kept == pytest.approx(window.step_ms)
    assert (None if kept == gap_ms else VoidReason.PAUSE) == window.void_reason


@pytest.mark.parametrize("median_ms", [10.0, 150.0, 199.0, 201.0, 400.0])
@pytest.mark.parametrize("pause_s", [0.9, 1.1, 2.1])
def test_the_simulator_voids_by_the_rule_for_pauses(median_ms: float, pause_s: float) -> None:
    """A simulated gap is a pause where the engine would take it for one."""
    job = model_job("mobilenet_v2", median_ms, home_bytes=None)
    target = SimulatedTarget(job, Cluster(), noise=Noise(pause_chance=1.0, pause_s=pause_s), seed=3)

    window = next(target.windows(WindowSpec(target.apply(target.baseline()), 0, 9, 0.0)))

    is_pause = _engine.is_pause(pause_s * 1e3, window.step_ms)
    assert (VoidReason.PAUSE if is_pause else None) == window.void_reason


def simulated() -> Target:
    """Return a simulated job with noise."""
    return SimulatedTarget(model_job("mobilenet_v2", 12.0, home_bytes=None), Cluster(), noise=Noise(), seed=3)


def synthetic() -> Target:
    """Return the target of the tests, with noise as large as the margin."""
    return SyntheticTarget(disturbances=Disturbances(step_noise=0.5, window_noise=0.5), seed=3)


def replayed() -> Target:
    """Return a replayed table whose only config scatters."""
    baseline = Config({"is_on": False})
    cells = {baseline: ((10.0, 40.0, 12.0, 30.0, 5.0, 33.0, 31.0, 4.0), (9.0, 8.0, 10.0, 11.0))}
    space = SearchSpace((BooleanParameter("is_on", default=False),), {})
    problem: Problem = TableProblem(Table("t", "public", space, baseline, cells, 1))
    return problem.target(3)


@pytest.mark.parametrize("make", [simulated, synthetic, replayed])
def test_targets_without_a_job_cut_by_the_rule(make: Callable[[], Target]) -> None:
    """A window with a limit is, with the same seed, the beginning of the one without, as long as the rule says."""
    counts = set()
    for length in range(4, 40):
        whole, cut = make(), make()
        (longer,) = (next(t.windows(WindowSpec(t.apply(t.baseline()), 0, length, 0.0))) for t in [whole])
        limit_ms = sorted(longer.step_ms)[length // 3]

        shorter = next(cut.windows(WindowSpec(cut.apply(cut.baseline()), 0, length, limit_ms)))

        kept = steps_until_cut(longer.step_ms, limit_ms)
        assert longer.step_ms[:kept] == pytest.approx(shorter.step_ms)
        assert shorter.was_cut == (kept < length)
        counts.add(kept < length)
    assert True in counts
