# SPDX-License-Identifier: Apache-2.0
"""Shared state of a run's phases, and the lengths of its windows."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from ringtune.tuner.cutting import LEAST_STEPS
from ringtune.tuner.policy_numbers import Policy
from ringtune.tuner.sample import Phase, Sample
from ringtune.tuner.space.config import Config
from ringtune.tuner.statistics.machine_level import LEAST_SIDE
from ringtune.tuner.statistics.noise import WindowNoise
from ringtune.tuner.statistics.paired_test import PairedTest

from .budget import ExplorationAccount, pair_window_steps, reserved_steps, steps_left_by_limit
from .journal import Journal
from .measuring import Meter, Order, steps_for, steps_within
from .settings import RunSettings
from .trials import TrialBook
from .value import Gain


class Inconclusive(Exception):  # noqa: N818 - reads as the outcome it is
    """The run cannot continue without a valid window; the message names the config and the reason."""


@dataclass
class RunState:
    """State of a run.

    Attributes:
        settings: Budget and identity.
        baseline: Config that the job would run without this search.
        incumbent: Measured config with the lowest posterior mean; the baseline before there is a model.
        reference: Config in force at the start of the run, against which the cost of other configs is counted.
        meter: Measures the target.
        book: The trials.
        journal: Writes the log and shows progress.
        account: Cost of all searches of the job.
        steps: Steps of a usual window, derived from the noise so far.
        at_once: Number of windows that baseline and search measure at the same time.
        expected_gain: Expected gain of the incumbent, ln(baseline / incumbent).
        adopted_before: Config that an earlier run of the same problem adopted after a test; None without one.
        gain: Posterior of the incumbent's gain; None from a designer without a joint posterior.
        spent: Limit that ended the search: `samples`, `steps` or `seconds`; None if no limit did.
        ended: Sentence on why the search ended; empty before.
        test: The adoption test, once it has begun.
        challenger: The config under test.
        config_count: Number of configs that the search can reach.
    """

    settings: RunSettings
    baseline: Config
    incumbent: Config
    reference: Config
    meter: Meter
    book: TrialBook
    journal: Journal
    account: ExplorationAccount
    steps: int
    at_once: int = 1
    expected_gain: float = 0.0
    adopted_before: Config | None = None
    gain: Gain | None = None
    spent: str | None = None
    ended: str = ""
    test: PairedTest | None = None
    challenger: Config | None = None
    config_count: float = math.inf

    @property
    def policy(self) -> Policy:
        """Constants of the policy."""
        return self.settings.policy

    @property
    def noise(self) -> WindowNoise:
        """Noise of the windows so far; needs a valid sample."""
        return WindowNoise.of(self.book.trials(), self.policy)

    @property
    def steps_left(self) -> float:
        """Steps that the budget still allows to measure or skip; infinite without a budget."""
        return min(self._left.values())

    @property
    def steps_used(self) -> float:
        """Steps that count against a budget of steps: those of the job since tuning began, and of earlier runs."""
        return self.meter.pace.job_steps + self.settings.earlier.steps

    @property
    def seconds_used(self) -> float:
        """Seconds that count against a budget of seconds, those of earlier runs included."""
        return self.journal.elapsed_s + self.settings.earlier.seconds

    @property
    def nearest_limit(self) -> str:
        """Limit that will be reached first: `steps` or `seconds`."""
        return min(self._left, key=self._left.__getitem__)

    @property
    def total_steps(self) -> float:
        """Steps of the whole budget, those taken included; infinite without a budget."""
        left = self._left
        return min(self.meter.steps + left["steps"], self.meter.turn_steps + left["seconds"])

    @property
    def reserved_steps(self) -> float:
        """Steps reserved for the adoption test."""
        return reserved_steps(self.total_steps, self.least_window_steps, self.policy)

    @property
    def least_value(self) -> float:
        """Value of information below which a sample is not worth its steps, ln(step time)."""
        policy, gain, reserved = self.policy, self.gain or Gain(0.0, 0.0), self.reserved_steps
        is_late = self.steps_left - reserved < (self.total_steps - reserved) / 2
        is_promising = gain.mean >= max(policy.least_gain, gain.std)
        return policy.late_value if is_late and not is_promising else policy.least_value

    @property
    def least_window_steps(self) -> int:
        """Steps of the shortest window; the target sets the length if windows are fixed."""
        return self.steps if self.settings.fixed_windows else self.policy.least_window_steps

    @property
    def pair_window_steps(self) -> int:
        """Steps of each window of a pair if the test began now."""
        if self.settings.fixed_windows:
            return self.steps
        return pair_window_steps(self.steps_left, self.steps, self.policy)

    @property
    def baseline_ms(self) -> float:
        """Median of the baseline's median step times on the machine as it is now, ms; 0 before the first one."""
        return self._levelled_ms(self.baseline)

    @property
    def interim(self) -> Config:
        """Config in force while no candidate is measured: the incumbent, unless its own windows were slower.

        A model may expect a gain that a config's samples contradict, and the time between trials is not accounted for.
        """
        return self.incumbent if 0.0 < self._levelled_ms(self.incumbent) < self.baseline_ms else self.baseline

    @property
    def cost_s(self) -> float:
        """Seconds lost so far to tried configs; 0 before the reference was measured."""
        reference_ms = self._median_ms(self.reference)
        return self.meter.cost_s(self.reference, reference_ms) if reference_ms else 0.0

    @property
    def is_exploration_overdrawn(self) -> bool:
        """True if one more trial might exceed the exploration budget; launches cost no training, and have none."""
        if self.settings.fixed_windows:
            return False
        planned_s = self.policy.planned_share * (self.settings.max_seconds or 0.0)
        return self.account.is_overdrawn(self.policy, self.journal.now_s, self.cost_s, self._risk_s, planned_s)

    @property
    def is_every_config_tried(self) -> bool:
        """True if no legal config is left untried."""
        return len(self.book.trials()) >= self.config_count

    def has_room(self, steps: float, at_once: int = 1) -> bool:
        """Return whether a window of `steps` steps fits into the budget beside the adoption test.

        Args:
            steps: Steps of the window.
            at_once: Number of such windows at the same time: they take the steps of all, and the seconds of one.
        """
        window, left, reserved = steps + self.policy.settle_steps, self._left, self.reserved_steps
        return window + reserved <= left["seconds"] and at_once * window + reserved <= left["steps"]

    def windows_needed(self, config: Config) -> int:
        """Return the number of windows that a config needs at first.

        A config that earlier runs have measured needs as many as show whether the machine has changed since.
        """
        is_known = any(sample.valid and sample.config == config for sample in self.settings.earlier.samples)
        return LEAST_SIDE if is_known else self.policy.baseline_windows

    def usual_steps(self, config: Config) -> int:
        """Return the steps of a usual window, derived from the noise of a config and limited by the budget.

        If the target alone sets the length of a window, return the length of the config's last one.
        """
        settings, policy = self.settings, self.policy
        samples = self.book.valid_samples(config)
        if settings.fixed_windows:
            return samples[-1].steps if samples else self.steps
        steps = steps_for([sample.step_times for sample in samples], settings.steps_per_sample, policy)
        return min(steps, self.most_window_steps)

    @property
    def most_window_steps(self) -> int:
        """Steps of the longest window in the budget; without a budget, the user's choice or the policy's maximum."""
        if math.isinf(self.total_steps):
            return self.settings.steps_per_sample or self.policy.most_window_steps
        return max(int(self.policy.window_share * self.total_steps), self.policy.least_window_steps)

    def search_steps(self, std: float) -> int:
        """Return the steps of a window of the search.

        Args:
            std: Posterior standard deviation of the suggestion, ln(step time). The larger it is, the fewer steps are
                needed. A length that the user has chosen takes precedence.
        """
        if self.settings.fixed_windows or self.settings.steps_per_sample is not None or std <= 0.0:
            return self.steps
        times = [x for trial in self.book.trials() for x in self.book.times_of(trial.config)]
        wanted = steps_within(self.policy.coarse_error * std, times)
        return min(max(wanted, self.policy.least_window_steps), self.steps)

    def order(self, config: Config, phase: Phase, steps: int, limit_ms: float = 0.0) -> Order:
        """Return the request for a window of a config; `Order` describes the arguments."""
        return Order(config, self.book.id_of(config), phase, steps, limit_ms)

    def measure(self, orders: Sequence[Order]) -> list[Sample]:
        """Measure windows at the same time, add each to its config's trial, and count the turn; one may be alone."""
        alone = len(orders) == 1
        samples = []
        for sample in [self.meter.measure(orders[0])] if alone else self.meter.measure_at_once(orders):
            self.book.add(sample)
            samples.append(sample)
        self.journal.measured()
        return samples

    @property
    def _left(self) -> dict[str, float]:
        return steps_left_by_limit(self.settings, self.meter.pace, self.journal.elapsed_s, self.baseline_ms * 1e-3)

    @property
    def _risk_s(self) -> float:
        """Seconds that the next trial may cost: the highest cost so far, or a window just short of being cut."""
        reference_ms = self._median_ms(self.reference)
        if not reference_ms:
            return 0.0
        steps = self.steps + self.policy.settle_steps
        uncut_s = steps * (self.policy.cut_factor * self.baseline_ms - self._levelled_ms(self.reference)) * 1e-3
        cut_steps = self.policy.settle_steps + LEAST_STEPS
        feared_s = cut_steps * (self.policy.feared_factor - 1.0) * self.baseline_ms * 1e-3
        return max(self.meter.dearest_s(self.reference, reference_ms), uncut_s, feared_s)

    def _median_ms(self, config: Config) -> float:
        times = self.book.times_of(config)
        return median(x.median for x in times) if times else 0.0

    def _levelled_ms(self, config: Config) -> float:
        """Return a config's median step time on the machine as it is now, milliseconds; 0 without a valid sample."""
        samples = (s for trial in self.book.levelled() if trial.config == config for s in trial.samples)
        times = [sample.step_times.median for sample in samples if sample.valid]
        return median(times) if times else 0.0
