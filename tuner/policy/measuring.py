# SPDX-License-Identifier: Apache-2.0
"""Measuring one config: switch, settle, take a window, judge it, measure a void one again, and keep the account."""

import math
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median

from ringtune.tuner.policy_numbers import POLICY, Policy
from ringtune.tuner.sample import MAD_TO_STD, TYPICAL_VARIANCE, Phase, Sample, StepTimes, VoidReason, Window
from ringtune.tuner.space.config import Config
from ringtune.tuner.targets import Target, TargetClosed, WindowSpec

from .pace import Pace


class TensorSetChanged(Exception):  # noqa: N818 - reads as the event it is
    """The job reduces other tensors than at the run's begin, so that its samples cannot be compared any more."""


@dataclass(frozen=True)
class Order:
    """What to measure.

    Attributes:
        config: The config to measure.
        trial_id: The trial it belongs to.
        phase: The phase of the run.
        steps: Steps per window.
        limit_ms: Steps over this cut the window, milliseconds; 0 never.
    """

    config: Config
    trial_id: int
    phase: Phase
    steps: int
    limit_ms: float = 0.0


def steps_for(times: Sequence[StepTimes], fixed: int | None, policy: Policy = POLICY) -> int:
    """Return the steps of a usual window.

    Args:
        times: Step times seen so far, usable ones.
        fixed: The user's choice, which holds; None chooses from the noise.
        policy: The numbers.
    """
    if fixed is not None:
        return fixed
    if not times:
        return policy.least_window_steps
    for_duration = math.ceil(policy.least_window_ms / median(x.median for x in times))
    wanted = max(steps_within(policy.window_error, times), for_duration, policy.least_window_steps)
    return min(wanted, policy.most_window_steps)


def steps_within(error: float, times: Sequence[StepTimes]) -> int:
    """Return the fewest steps whose typical step has a given standard error.

    Args:
        error: Standard error of the typical step, as a fraction of it, above zero.
        times: Step times seen so far, usable ones, at least one.
    """
    noise = median(MAD_TO_STD * x.mad / x.median for x in times)
    return math.ceil(TYPICAL_VARIANCE * (noise / error) ** 2)


@dataclass
class _Spent:
    """What the windows of a config took, settling steps included."""

    windows: int = 0
    steps: int = 0
    spent_ms: float = 0.0

    def cost_s(self, reference_ms: float) -> float:
        """Return the seconds lost against so many steps of the reference's."""
        return (self.spent_ms - self.steps * reference_ms) * 1e-3


class Meter:
    """Switches a target and measures it.

    Attributes:
        steps: Steps measured or skipped so far.
        tensor_set: Hash of the tensors of the first valid window after warmup; None before.
        pace: What a step costs of a budget.
    """

    def __init__(
        self,
        target: Target,
        on_sample: Callable[[Sample], None],
        clock: Callable[[], float] = time.monotonic,
        policy: Policy = POLICY,
    ) -> None:
        """Measure `target`; `on_sample` takes every sample, void ones included; `clock` is in seconds, monotonic."""
        self._policy = policy
        self._target = target
        self._on_sample = on_sample
        self._in_force: Config | None = None
        self._epoch = 0
        self._has_switched = False
        self._explored: defaultdict[Config, _Spent] = defaultdict(_Spent)
        self._windows_of_others = 0
        self.steps = 0
        self.tensor_set: int | None = None
        self.pace = Pace(clock, policy)

    @property
    def in_force(self) -> Config | None:
        """The config asked for last, or None before the first."""
        return self._in_force

    def switch(self, config: Config) -> None:
        """Bring `config` in force, if it is not; raises TargetClosed when the job is over."""
        if config != self._in_force:
            self._epoch = self._target.apply(config)
            self._in_force = config
            self._has_switched = True

    def measure(self, order: Order, repeats: int | None = None) -> Sample:
        """Measure until a window is valid, at most 1 + `repeats` times; return the last sample, valid or not.

        None repeats as often as the policy says.

        A launch that failed is not repeated here: its target knows when that helps.

        Raises:
            TargetClosed: If the job is over.
            TensorSetChanged: If the job has lastingly gone over to other tensors.
        """
        self.switch(order.config)
        settle_steps = self._policy.settle_steps if self._has_switched else 0
        self._has_switched = False
        windows = self._target.windows(WindowSpec(self._epoch, settle_steps, order.steps, order.limit_ms))
        for _ in range(1 + (self._policy.void_repeats if repeats is None else repeats)):
            window = next(windows, None)
            if window is None:
                raise TargetClosed("the target has no more windows")
            window = self._compared(window, order.phase)
            sample = Sample.from_window(window, trial_id=order.trial_id, config=order.config, phase=order.phase)
            self._account(sample, settle_steps)
            self.pace.note(sample.steps + settle_steps, window.last_step)
            self._on_sample(sample)
            if self._windows_of_others >= self._policy.foreign_windows:
                raise TensorSetChanged("the job reduces other tensors than when tuning began")
            if sample.valid or sample.reason is VoidReason.LAUNCH_FAILED:
                break
            settle_steps = 0
        return sample

    def cost_s(self, reference: Config, reference_ms: float) -> float:
        """Return the seconds lost to configs that were tried, against the median step of what would run otherwise.

        Args:
            reference: Its own steps cost nothing.
            reference_ms: Its median step time, milliseconds.

        Returns:
            Below zero when what was tried was faster on the whole. Settling steps are taken to be as long as the
            mean step of their window; pauses, and the steps while the designer thinks, are left out.
        """
        return sum(spent.cost_s(reference_ms) for config, spent in self._explored.items() if config != reference)

    def dearest_s(self, reference: Config, reference_ms: float) -> float:
        """Return what a window of the config cost that cost most by window, seconds; 0 where none cost anything.

        Args:
            reference: As of `cost_s`.
            reference_ms: As of `cost_s`.
        """
        costs = (
            spent.cost_s(reference_ms) / spent.windows
            for config, spent in self._explored.items()
            if config != reference
        )
        return max(costs, default=0.0)

    def credit(self, sample: Sample, reference_ms: float) -> None:
        """Count a window in which nothing was tried, if its steps were shorter than the reference's.

        Args:
            sample: As `measure` returned it.
            reference_ms: As of `cost_s`.
        """
        if sample.step_times.is_usable and sample.step_times.mean < reference_ms:
            self._add(sample.config, sample.steps, sample.step_times.mean)

    def _compared(self, window: Window, phase: Phase) -> Window:
        """Return the window, void if its tensors are not those of the run's first valid window after warmup."""
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
