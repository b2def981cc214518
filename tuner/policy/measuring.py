# SPDX-License-Identifier: Apache-2.0
"""Measurement of one config: switch, settle, take a window, validate it, repeat a void one, account for the cost."""

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median

from ringtune.tuner.policy_numbers import POLICY, Policy
from ringtune.tuner.sample import FAILURES, MAD_TO_STD, TYPICAL_VARIANCE, Phase, Sample, StepTimes, VoidReason, Window
from ringtune.tuner.space.config import Config
from ringtune.tuner.targets import ParallelTarget, Target, TargetClosed, WindowSpec

from .pace import Pace


class TensorSetChanged(Exception):  # noqa: N818 - reads as the event it is
    """The job reduces other tensors than at the start of the run; its samples are no longer comparable."""


@dataclass(frozen=True)
class Order:
    """Measurement request.

    Attributes:
        config: The config to measure.
        trial_id: Number of the config's trial.
        phase: Phase of the run.
        steps: Steps per window.
        limit_ms: Step time above which the window is cut, milliseconds; 0 never cuts.
    """

    config: Config
    trial_id: int
    phase: Phase
    steps: int
    limit_ms: float = 0.0


def steps_for(times: Sequence[StepTimes], fixed: int | None, policy: Policy = POLICY) -> int:
    """Return the number of steps of a usual window.

    Args:
        times: Usable step times so far.
        fixed: The user's choice, which takes precedence; None derives the number from the noise.
        policy: Constants of the policy.
    """
    if fixed is not None:
        return fixed
    if not times:
        return policy.least_window_steps
    for_duration = math.ceil(policy.least_window_ms / median(x.median for x in times))
    wanted = max(steps_within(policy.window_error, times), for_duration, policy.least_window_steps)
    return min(wanted, policy.most_window_steps)


def steps_within(error: float, times: Sequence[StepTimes]) -> int:
    """Return the smallest number of steps whose typical step has a given standard error.

    Args:
        error: Relative standard error of the typical step, above zero.
        times: Usable step times so far, at least one.
    """
    noise = median(MAD_TO_STD * x.mad / x.median for x in times)
    return math.ceil(TYPICAL_VARIANCE * (noise / error) ** 2)


@dataclass
class _Spent:
    """Time and steps of a config's windows, settling steps included."""

    windows: int = 0
    steps: int = 0
    spent_ms: float = 0.0

    def cost_s(self, reference_ms: float) -> float:
        """Return the seconds lost against the same number of steps of the reference."""
        return (self.spent_ms - self.steps * reference_ms) * 1e-3


class Meter:
    """Meter: switches a target between configs and measures them.

    Attributes:
        steps: Steps measured or skipped so far.
        turn_steps: The same, with the mean of windows that were measured at the same time in place of their sum.
        tensor_set: Hash of the tensors of the first valid window after warmup; None before.
        pace: Seconds and job steps per measured step.
    """

    def __init__(
        self,
        target: Target,
        on_sample: Callable[[Sample], None],
        clock: Callable[[], float] = time.monotonic,
        policy: Policy = POLICY,
    ) -> None:
        """Measure `target`; `on_sample` receives every sample, void ones included; `clock` is monotonic, in seconds."""
        self._policy = policy
        self._target = target
        self._on_sample = on_sample
        self._in_force: Config | None = None
        self._epoch = 0
        self._has_switched = False
        self._explored: defaultdict[Config, _Spent] = defaultdict(_Spent)
        self._windows_of_others = 0
        self.steps = 0
        self.turn_steps = 0.0
        self.tensor_set: int | None = None
        self.pace = Pace(clock, policy)

    @property
    def in_force(self) -> Config | None:
        """The config that was requested last; None before the first."""
        return self._in_force

    def switch(self, config: Config) -> None:
        """Bring `config` in force if it is not; raises TargetClosed if the job is over."""
        if config != self._in_force:
            self._epoch = self._target.apply(config)
            self._in_force = config
            self._has_switched = True

    def measure(self, order: Order, repeats: int | None = None) -> Sample:
        """Measure until a window is valid, at most 1 + `repeats` times; return the last sample, valid or not.

        None for `repeats` uses the policy's `void_repeats`. Void for a reason in `FAILURES` is not measured again.

        Raises:
            TargetClosed: If the job is over.
            TensorSetChanged: If several windows in a row had other tensors.
        """
        self.switch(order.config)
        settle_steps = self._policy.settle_steps if self._has_switched else 0
        self._has_switched = False
        windows = self._target.windows(WindowSpec(self._epoch, settle_steps, order.steps, order.limit_ms))
        for _ in range(1 + (self._policy.void_repeats if repeats is None else repeats)):
            window = next(windows, None)
            if window is None:
                raise TargetClosed("the target has no more windows")
            sample = self._sample(window, order, settle_steps)
            self._note_turn(sample.steps + settle_steps, window.last_step, 1)
            if self._windows_of_others >= self._policy.foreign_windows:
                raise TensorSetChanged("the job reduces other tensors than when tuning began")
            if sample.valid or sample.reason in FAILURES:
                break
            settle_steps = 0
        return sample

    def measure_at_once(self, orders: Sequence[Order]) -> Iterator[Sample]:
        """Measure a window of each order, all at the same time; yield the samples in the order of the orders.

        A void window is not measured again: it would have other neighbours than the rest.

        Raises:
            TargetClosed: If the job is over; the samples that were complete before are yielded first.
        """
        if not isinstance(self._target, ParallelTarget):
            raise TypeError(f"the target {self._target.name} measures one window at a time")
        settle_steps, by_epoch, specs = self._policy.settle_steps, dict[int, Order](), list[WindowSpec]()
        for order in orders:
            epoch = self._target.apply(order.config)
            by_epoch[epoch] = order
            specs.append(WindowSpec(epoch, settle_steps, order.steps, order.limit_ms))
        self._in_force, self._has_switched = orders[-1].config, True
        steps, last_step = [], None
        for window in self._target.windows_at_once(specs):
            sample = self._sample(window, by_epoch[window.epoch], settle_steps)
            last_step = window.last_step
            if sample.steps:
                steps.append(sample.steps + settle_steps)
            yield sample
        self._note_turn(sum(steps), last_step, max(len(steps), 1))

    def cost_s(self, reference: Config, reference_ms: float) -> float:
        """Return the seconds lost to the tried configs, compared with the reference's median step.

        Args:
            reference: Config that would run without tuning; its own steps cost nothing.
            reference_ms: Median step time of the reference, milliseconds.

        Returns:
            Cost in seconds, below zero if the tried configs were faster on the whole. Settling steps count as long as
            the mean step of their window. Pauses, and steps while the designer works, are left out.
        """
        return sum(spent.cost_s(reference_ms) for config, spent in self._explored.items() if config != reference)

    def dearest_s(self, reference: Config, reference_ms: float) -> float:
        """Return the highest mean cost of a window over all tried configs, seconds; at least 0.

        Args:
            reference: Config that would run without tuning; see `cost_s`.
            reference_ms: Median step time of the reference, milliseconds.
        """
        costs = (
            spent.cost_s(reference_ms) / spent.windows
            for config, spent in self._explored.items()
            if config != reference
        )
        return max(costs, default=0.0)

    def credit(self, sample: Sample, reference_ms: float) -> None:
        """Credit the time that a window without a candidate has gained, if its steps were shorter than the reference's.

        Args:
            sample: Sample returned by `measure`.
            reference_ms: Median step time of the reference, milliseconds.
        """
        if sample.step_times.is_usable and sample.step_times.mean < reference_ms:
            self._add(sample.config, sample.steps, sample.step_times.mean)

    def _sample(self, window: Window, order: Order, settle_steps: int) -> Sample:
        """Return the sample of a window, once it is accounted for."""
        window = self._compared(window, order.phase)
        sample = Sample.from_window(window, trial_id=order.trial_id, config=order.config, phase=order.phase)
        self._account(sample, settle_steps)
        self._on_sample(sample)
        return sample

    def _note_turn(self, steps: int, last_step: int | None, at_once: int) -> None:
        self.turn_steps += steps / at_once
        self.pace.note(steps, last_step, at_once)

    def _compared(self, window: Window, phase: Phase) -> Window:
        """Return the window, made void if its tensors differ from the run's first valid window after warmup."""
        if window.void_reason is not None or phase is Phase.WARMUP:
            return window
        if self.tensor_set is None:
            self.tensor_set = window.tensor_set
        if window.tensor_set == self.tensor_set:
            self._windows_of_others = 0
            return window
        self._windows_of_others += 1
        return replace(window, void_reason=VoidReason.TENSOR_SET_CHANGED)

    def _account(self, sample: Sample, settle_steps: int) -> None:
        steps = sample.steps + settle_steps
        self.steps += steps
        is_explored = sample.phase is not Phase.WATCH and sample.reason is not VoidReason.PAUSE
        if is_explored and sample.step_times.is_usable:
            self._add(sample.config, steps, sample.step_times.mean)

    def _add(self, config: Config, steps: int, mean_ms: float) -> None:
        spent = self._explored[config]
        spent.windows += 1
        spent.steps += steps
        spent.spent_ms += steps * mean_ms
