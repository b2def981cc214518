# SPDX-License-Identifier: Apache-2.0
"""The budget: steps and seconds that are left, what the adoption test keeps of them, and what exploration may cost."""

import math
from dataclasses import dataclass

from ringtune.tuner.policy_numbers import Policy
from ringtune.tuner.statistics.noise import WindowNoise
from ringtune.tuner.statistics.paired_test import ERROR, LEAST_PAIRS
from ringtune.tuner.statistics.student_t import student_t_quantile

from .pace import Pace
from .settings import RunSettings

MOST_PAIRS = 100
"""Largest number of pairs that an estimate names."""


def steps_left_by_limit(settings: RunSettings, pace: Pace, elapsed_s: float, baseline_s: float) -> dict[str, float]:
    """Return the steps left by each limit, infinite without it.

    Steps and seconds that the job spends between windows are taken off at the pace of the newest windows. Before the
    first window no pace is known, and seconds set no limit. Half of the test's windows are the baseline's, so that its
    pace counts where the configs of the search are faster.

    Args:
        settings: With the limits.
        pace: Of the run so far.
        elapsed_s: Since the run began, seconds.
        baseline_s: A step of the baseline, seconds; 0 where it was not measured.
    """
    left, planned = {"steps": math.inf, "seconds": math.inf}, settings.policy.planned_share
    if settings.max_steps is not None:
        limit = planned * settings.max_steps if pace.is_numbered else settings.max_steps
        left["steps"] = (limit - pace.job_steps) / pace.job_steps_per_step
    if settings.max_seconds is not None and pace.seconds_per_step is not None:
        left_s = planned * settings.max_seconds - elapsed_s
        least = (settings.least_steps - pace.job_steps) / pace.job_steps_per_step
        left["seconds"] = max(left_s / max(pace.seconds_per_step, baseline_s), least)
    return left


def adoption_steps(pairs: int, window_steps: int, settle_steps: int) -> int:
    """Return the steps of so many pairs; neighbouring pairs share a config, and do not switch."""
    return pairs * (2 * window_steps + settle_steps) + settle_steps


def reserved_steps(total: float, least_window: int, policy: Policy) -> float:
    """Return the steps that the search leaves for the adoption test: its share, and the fewest pairs at least.

    Args:
        total: The budget in steps; infinite without one, and then nothing is kept.
        least_window: Steps of the test's shortest window.
        policy: The numbers.
    """
    if math.isinf(total):
        return 0.0
    return max(policy.test_share * total, adoption_steps(LEAST_PAIRS, least_window, policy.settle_steps))


def pair_window_steps(left: float, usual: int, policy: Policy) -> int:
    """Return the steps of each of a pair's windows: the usual, or fewer where too few pairs would fit.

    Args:
        left: Steps that the test may take; infinite without a budget.
        usual: Steps of a usual window.
        policy: The numbers.
    """
    fitting = (left / policy.test_pairs - policy.settle_steps) / 2
    return int(max(min(fitting, usual), min(policy.least_window_steps, usual)))


def pairs_needed(gain: float, noise: WindowNoise, window_steps: int) -> int:
    """Return the number of pairs that is expected to put the lower end of a gain's interval at zero.

    Args:
        gain: As ln(baseline / challenger), above zero.
        noise: Of windows.
        window_steps: Of each of a pair's windows.
    """
    variance = noise.pair_variance(window_steps)
    for pairs in range(LEAST_PAIRS, MOST_PAIRS):
        quantile = student_t_quantile(pairs - 1 + noise.weight, 1.0 - ERROR)
        if gain >= quantile * math.sqrt(variance / pairs):
            return pairs
    return MOST_PAIRS


@dataclass
class ExplorationAccount:
    """Cost of everything that the searches of a job have tried, against the time of the job.

    Attributes:
        began_s: When the first search began, on the run's clock, seconds.
        spent_s: Cost of the searches that are over, seconds; what one has gained pays for no other.
    """

    began_s: float
    spent_s: float = 0.0

    def is_overdrawn(
        self, policy: Policy, now_s: float, cost_s: float, risk_s: float = 0.0, planned_s: float = 0.0
    ) -> bool:
        """Return whether the next trial might cost too much.

        Args:
            policy: The numbers.
            now_s: On the run's clock, seconds.
            cost_s: Of the search that goes on, seconds; below zero where it has gained on the whole.
            risk_s: Largest likely cost of the next trial, seconds.
            planned_s: Length of the run by its budget, seconds; 0 where it has none.
        """
        elapsed_s = now_s - self.began_s
        if elapsed_s <= policy.exploration_grace_s:
            return False
        return self.spent_s + cost_s + risk_s > policy.exploration_share * max(elapsed_s, planned_s)

    def close_search(self, cost_s: float) -> None:
        """Add the cost of a search that is over, seconds."""
        self.spent_s += max(cost_s, 0.0)
