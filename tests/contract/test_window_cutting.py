# SPDX-License-Identifier: Apache-2.0
"""One rule cuts windows of bad configs: in the engine, under DDP, in the simulator, in tests and in replayed tables."""

from collections.abc import Callable, Sequence
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.tuner.regret.problem import Problem
from benchmarks.tuner.regret.table import Table, TableProblem
from ringtune import _engine
from ringtune.tuner import BooleanParameter, Config, SearchSpace, Target, Window, WindowSpec, is_over_limit
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
