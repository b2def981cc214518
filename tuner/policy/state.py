# SPDX-License-Identifier: Apache-2.0
"""The state that the phases of a run share, and the lengths of its windows."""

import math
from dataclasses import dataclass
from statistics import median

from ringtune.tuner.policy_numbers import Policy
from ringtune.tuner.sample import Phase, Sample
from ringtune.tuner.space.config import Config
from ringtune.tuner.statistics.noise import WindowNoise
from ringtune.tuner.statistics.paired_test import PairedTest

from .budget import ExplorationAccount, pair_window_steps, reserved_steps, steps_left_by_limit
from .journal import Journal
from .measuring import Meter, Order, steps_for, steps_within
from .settings import RunSettings
from .trials import TrialBook
from .value import Gain


class Inconclusive(Exception):  # noqa: N818 - reads as the outcome it is
    """The run cannot go on for want of valid windows; the message says which and why."""


@dataclass
class RunState:
    """State of a run.

    Attributes:
        settings: Budget and identity.
        baseline: The config the job would run without this search.
        incumbent: The measured config with the lowest posterior mean; the baseline before there is a model.
        reference: The config in force when the run begins: the cost of others is counted against it.
        meter: Measures the target.
        book: The trials.
        journal: Writes the log and shows progress.
        account: Cost of all searches of the job.
        steps: Steps of a usual window, by the noise seen so far.
        expected_gain: Expected gain of the incumbent over the baseline, as ln.
        adopted_before: Config that an earlier run of the same question has adopted after a test; None without one.
        gain: Posterior of the incumbent's gain; None from a designer without a joint posterior.
        spent: The limit that ended the search, `samples`, `steps` or `seconds`; None where it ended by itself.
        test: The adoption test, once it has begun.
        challenger: The config under test.
        config_count: Number of legal configs.
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
    expected_gain: float = 0.0
    adopted_before: Config | None = None
    gain: Gain | None = None
    spent: str | None = None
    test: PairedTest | None = None
    challenger: Config | None = None
    config_count: float = math.inf

    @property
    def policy(self) -> Policy:
        """The numbers."""
        return self.settings.policy

    @property
    def noise(self) -> WindowNoise:
        """Noise of windows so far; needs a valid sample."""
        return WindowNoise.of(self.book.trials(), self.policy)

    @property
    def steps_left(self) -> float:
        """Steps that the budget still allows to measure or skip; infinite without one."""
        return min(self._left.values())

    @property
    def nearest_limit(self) -> str:
        """The limit that is reached first, `steps` or `seconds`."""
        return min(self._left, key=self._left.__getitem__)

    @property
    def total_steps(self) -> float:
        """Steps of the whole budget, those done included; infinite without one."""
        return self.meter.steps + self.steps_left

    @property
    def reserved_steps(self) -> float:
        """Steps that the search leaves for the adoption test."""
        return reserved_steps(self.total_steps, self.least_window_steps, self.policy)

    @property
    def least_window_steps(self) -> int:
        """Shortest window: that of a launch cannot be chosen."""
        return self.steps if self.settings.fixed_windows else self.policy.least_window_steps

    @property
    def pair_window_steps(self) -> int:
        """Steps of each of a pair's windows, if the test began now."""
        if self.settings.fixed_windows:
            return self.steps
        return pair_window_steps(self.steps_left, self.steps, self.policy)

    @property
    def baseline_ms(self) -> float:
        """Median of the baseline's median step times, milliseconds; 0 before it was measured."""
        return self._median_ms(self.baseline)

    @property
    def interim(self) -> Config:
        """The config in force while nothing is tried: the incumbent, unless its own windows were slower.

        A model may expect much of a config against its samples, and time between trials is on no account.
        """
        times = self.book.times_of(self.incumbent)
        is_faster = bool(times) and median(x.median for x in times) < self.baseline_ms
        return self.incumbent if is_faster else self.baseline

    @property
    def cost_s(self) -> float:
        """Seconds lost so far to configs that were tried; 0 before the reference was measured."""
        reference_ms = self._median_ms(self.reference)
        return self.meter.cost_s(self.reference, reference_ms) if reference_ms else 0.0

    @property
    def is_exploration_overdrawn(self) -> bool:
        """Whether one more trial might make exploration too expensive."""
        planned_s = self.policy.planned_share * (self.settings.max_seconds or 0.0)
        return self.account.is_overdrawn(self.policy, self.journal.now_s, self.cost_s, self._risk_s, planned_s)

    def has_room(self, steps: float) -> bool:
        """Return whether a window of so many steps fits beside the adoption test."""
        return steps + self.policy.settle_steps + self.reserved_steps <= self.steps_left

    def usual_steps(self, config: Config) -> int:
        """Return the steps of a usual window by the noise of a config: fewer where the budget is small.

        A target that decides alone how many steps a launch has gives the number of its last one.
        """
        settings, policy = self.settings, self.policy
        samples = self.book.valid_samples(config)
        if settings.fixed_windows:
            return samples[-1].steps if samples else self.steps
        steps = steps_for([sample.step_times for sample in samples], settings.steps_per_sample, policy)
        return min(steps, self.most_window_steps)

    @property
    def most_window_steps(self) -> int:
        """Longest window that the budget has room for; without a budget, a length that the user has chosen holds."""
        if math.isinf(self.total_steps):
            return self.settings.steps_per_sample or self.policy.most_window_steps
        return max(int(self.policy.window_share * self.total_steps), self.policy.least_window_steps)

    def search_steps(self, std: float) -> int:
        """Return the steps of a window of the search.

        Args:
            std: Posterior standard deviation of the suggestion, ln(step time): where much is unknown, few steps
                will do. A length that the user has chosen holds.
        """
        if self.settings.fixed_windows or self.settings.steps_per_sample is not None or std <= 0.0:
            return self.steps
        times = [x for trial in self.book.trials() for x in self.book.times_of(trial.config)]
        wanted = steps_within(self.policy.coarse_error * std, times)
        return min(max(wanted, self.policy.least_window_steps), self.steps)

    def measure(self, config: Config, phase: Phase, steps: int, limit_ms: float = 0.0) -> Sample:
        """Take a window of a config, add it to its trial, and count it; arguments as of `Order`."""
        sample = self.meter.measure(Order(config, self.book.id_of(config), phase, steps, limit_ms))
        self.book.add(sample)
        self.journal.measured()
        return sample

    @property
    def _left(self) -> dict[str, float]:
        return steps_left_by_limit(self.settings, self.meter.pace, self.journal.elapsed_s, self.baseline_ms * 1e-3)

    @property
    def _risk_s(self) -> float:
        """Seconds that the next trial may cost: the dearest so far, or a window that is just not cut."""
        reference_ms = self._median_ms(self.reference)
        if not reference_ms:
            return 0.0
        steps = self.steps + self.policy.settle_steps
        uncut_s = steps * (self.policy.cut_factor * self.baseline_ms - reference_ms) * 1e-3
        return max(self.meter.dearest_s(self.reference, reference_ms), uncut_s)

    def _median_ms(self, config: Config) -> float:
        times = self.book.times_of(config)
        return median(x.median for x in times) if times else 0.0
