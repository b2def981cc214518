# SPDX-License-Identifier: Apache-2.0
"""Tests of measuring: steps per window, switching, void windows, the account of costs."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from ringtune.tuner import Phase, Sample, StepTimes, TargetClosed, VoidReason, Window, WindowSpec, default_config
from ringtune.tuner.policy.measuring import Meter, Order, TensorSetChanged, steps_for, steps_within
from ringtune.tuner.policy_numbers import POLICY
from ringtune.tuner.testing import SyntheticTarget, poor_baseline

BASELINE, OTHER = default_config(), poor_baseline()


class ScriptedTarget(SyntheticTarget):
    """Yields the given windows, and remembers the requests."""

    def __init__(self, windows: list[Window]) -> None:
        """Yield these windows, then no more."""
        super().__init__()
        self._script = windows
        self.specs: list[WindowSpec] = []

    def windows(self, spec: WindowSpec) -> Iterator[Window]:
        """Yield the rest of the script."""
        self.specs.append(spec)
        while self._script:
            yield self._script.pop(0)


def window(step_ms: float = 10.0, reason: VoidReason | None = None) -> Window:
    """Return a window of ten equal steps."""
    return Window(1, (step_ms,) * 10, 1000, 1, reason)


def failed() -> Window:
    """Return the window of a launch that failed."""
    return Window(1, (), 1, 0, VoidReason.LAUNCH_FAILED)


def order(config: object = BASELINE, phase: Phase = Phase.SEARCH) -> Order:
    """Return an order for ten steps."""
    return Order(config, 1, phase, 10)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("median_ms", "noise", "expected"),
    [(20.0, 0.01, 15), (20.0, 0.04, 21), (1000.0, 0.001, 5), (0.1, 0.04, 200), (20.0, 0.5, 200)],
)
def test_steps_follow_noise_and_duration(median_ms: float, noise: float, expected: int) -> None:
    """About 1 % standard error of the typical step, at least 0.3 s, between 5 and 200 steps."""
    times = StepTimes(median_ms, noise * median_ms / 1.4826, median_ms)

    assert expected == steps_for([times], None)


def test_what_need_not_be_known_well_takes_fewer_steps() -> None:
    """A window's variance is 1.25 over its steps: at a scatter of 4 %, 21 steps are within 1 %, two within 4 %."""
    times = [StepTimes(20.0, 0.04 * 20.0 / 1.4826, 20.0)]

    assert [21, 2] == [steps_within(error, times) for error in (0.01, 0.04)]


def test_the_users_steps_hold() -> None:
    """A number set by the user is not second-guessed."""
    assert 3 == steps_for([StepTimes(20.0, 5.0, 20.0)], 3)


def test_a_void_window_is_measured_again() -> None:
    """The first valid window ends the measurement; every window is heard of."""
    heard: list[Sample] = []
    script = [window(reason=VoidReason.PAUSE), window(reason=VoidReason.MIXED_EPOCHS), window(7.0), window(8.0)]
    target = ScriptedTarget(script)

    sample = Meter(target, heard.append).measure(order())

    assert 7.0 == sample.step_times.median
    assert [VoidReason.PAUSE, VoidReason.MIXED_EPOCHS, None] == [s.reason for s in heard]


def test_after_three_repeats_the_sample_is_given_up() -> None:
    """Four void windows are an inconclusive measurement, not an endless one."""
    target = ScriptedTarget([window(reason=VoidReason.NO_GRADIENTS) for _ in range(9)])
    heard: list[Sample] = []

    sample = Meter(target, heard.append).measure(order())

    assert VoidReason.NO_GRADIENTS is sample.reason
    assert 1 + POLICY.void_repeats == len(heard)


def test_it_settles_after_a_switch_only() -> None:
    """Steps right after a switch are skipped; without a switch none are wasted."""
    target = ScriptedTarget([window() for _ in range(3)])
    meter = Meter(target, lambda _: None)

    for config in (BASELINE, BASELINE, OTHER):
        meter.measure(order(config))

    assert [POLICY.settle_steps, 0, POLICY.settle_steps] == [spec.settle_steps for spec in target.specs]
    assert [1, 1, 2] == [spec.epoch for spec in target.specs]
    assert [BASELINE, OTHER] == target.applied
    assert 30 + 2 * POLICY.settle_steps == meter.steps


def test_a_target_without_windows_is_closed() -> None:
    """The end of the windows is the end of the job."""
    with pytest.raises(TargetClosed):
        Meter(ScriptedTarget([]), lambda _: None).measure(order())


def test_cost_is_the_time_over_the_baselines_median() -> None:
    """Thirteen steps of 15 ms against 10 ms lose 65 ms; the baseline's own steps and pauses are free."""
    target = ScriptedTarget([window(12.0), window(999.0, VoidReason.PAUSE), window(15.0)])
    meter = Meter(target, lambda _: None)
    meter.measure(order(BASELINE))
    meter.measure(order(OTHER))

    assert pytest.approx(10 * 5e-3) == meter.cost_s(BASELINE, 10.0)


def test_faster_configs_cost_less_than_nothing() -> None:
    """Trying a config that turns out faster is a gain and reported as one."""
    meter = Meter(ScriptedTarget([window(6.0)]), lambda _: None)
    meter.measure(order(OTHER))

    assert pytest.approx((10 + POLICY.settle_steps) * -4e-3) == meter.cost_s(BASELINE, 10.0)


def test_the_dearest_config_is_that_whose_windows_cost_most_each() -> None:
    """Two windows of 14 ms lose 48 and 40 ms, one of 16 ms 72 ms; the reference's own are on no account."""
    target = ScriptedTarget([window(x) for x in (14.0, 14.0, 16.0, 99.0)])
    meter = Meter(target, lambda _: None)
    costs = [meter.dearest_s(BASELINE, 10.0)]
    for config in (OTHER, OTHER, OTHER.replace({"cycle_ms": 7.0}), BASELINE):
        meter.measure(order(config))
        costs.append(meter.dearest_s(BASELINE, 10.0))

    assert pytest.approx([0.0, 0.048, 0.044, 0.072, 0.072]) == costs


def test_a_launch_that_failed_is_not_repeated() -> None:
    """A failed launch's target has given up, or has tried again itself."""
    target = ScriptedTarget([failed(), window()])

    sample = Meter(target, lambda _: None).measure(order())

    assert VoidReason.LAUNCH_FAILED is sample.reason
    assert 1 == len(target._script)


def test_what_is_watched_costs_nothing() -> None:
    """A watched window is free, since the job runs it anyway, and the account of a long job leaves it out."""
    meter = Meter(ScriptedTarget([window(15.0)] * 2), lambda _: None)

    meter.measure(order(OTHER, Phase.WATCH))

    assert 0.0 == meter.cost_s(BASELINE, 10.0)
    assert {} == meter._explored


def test_a_window_of_the_wait_earns_and_never_costs() -> None:
    """No config is tried in it: shorter steps than the baseline's are a gain, longer ones the machine's fault."""
    meter = Meter(ScriptedTarget([window(15.0), window(8.0)]), lambda _: None)
    costs = []
    for _ in range(2):
        meter.credit(meter.measure(order(OTHER, Phase.WATCH)), 10.0)
        costs.append(meter.cost_s(BASELINE, 10.0))

    assert costs[0] == 0.0
    assert costs[1] < 0.0


def test_windows_of_other_tensors_are_void_and_in_the_end_an_event() -> None:
    """The first valid window after warmup says which tensors the samples are of."""
    others = replace(window(), tensor_set=2)
    taken: list[Sample] = []
    meter = Meter(
        ScriptedTarget([others, window(), others, window(), *[others] * POLICY.foreign_windows]), taken.append
    )
    meter.measure(order(phase=Phase.WARMUP))
    meter.measure(order())
    meter.measure(order())

    with pytest.raises(TensorSetChanged):
        meter.measure(order())

    reasons = [sample.reason for sample in taken]
    changed = VoidReason.TENSOR_SET_CHANGED
    assert [None, None, changed, None, *[changed] * POLICY.foreign_windows] == reasons
