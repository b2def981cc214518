# SPDX-License-Identifier: Apache-2.0
"""Budget: steps and seconds left, the share reserved for the adoption test, and the limit on exploration's cost."""

import math
from dataclasses import dataclass

from ringtune.tuner.policy_numbers import Policy
from ringtune.tuner.statistics.noise import WindowNoise
from ringtune.tuner.statistics.paired_test import ERROR, LEAST_PAIRS
from ringtune.tuner.statistics.student_t import student_t_quantile

from .pace import Pace
from .settings import RunSettings

MOST_PAIRS = 100
"""Upper bound of an estimated number of pairs."""


def steps_left_by_limit(settings: RunSettings, pace: Pace, elapsed_s: float, baseline_s: float) -> dict[str, float]:
    """Return the number of steps that each limit still allows; infinite without the limit.

    Steps and seconds that the job spends between windows are subtracted at the pace of the newest windows. Before the
    first window no pace is known, and the seconds set no limit. Half of the test's windows measure the baseline;
    therefore seconds are converted at the slower of pace and baseline.

    Args:
        settings: Settings with the limits.
        pace: Pace of the run so far.
        elapsed_s: Time since the run began, seconds.
        baseline_s: Duration of a step of the baseline, seconds; 0 if not yet measured.
    """
    left, planned = {"steps": math.inf, "seconds": math.inf}, settings.policy.planned_share
    if settings.max_steps is not None:
        limit = (planned * settings.max_steps if pace.is_numbered else settings.max_steps) - settings.earlier.steps
        left["steps"] = (limit - pace.job_steps) / pace.job_steps_per_step
    if settings.max_seconds is not None and pace.seconds_per_step is not None:
        left_s = planned * settings.max_seconds - settings.earlier.seconds - elapsed_s
        least = (settings.least_steps - pace.job_steps) / pace.job_steps_per_step
        left["seconds"] = max(left_s / max(pace.seconds_per_step, baseline_s), least)
    return left


def adoption_steps(pairs: int, window_steps: int, settle_steps: int) -> int:
    """Return the steps that a number of pairs takes; no switch is needed between neighbouring pairs."""
    return pairs * (2 * window_steps + settle_steps) + settle_steps


def reserved_steps(total: float, least_window: int, policy: Policy) -> float:
    """Return the steps reserved for the adoption test: its share of the budget, or the fewest pairs if that is more.

    Args:
        total: Budget in steps; infinite without one, and then nothing is reserved.
        least_window: Steps of the test's shortest window.
        policy: Constants of the policy.
    """
    if math.isinf(total):
        return 0.0
    return max(policy.test_share * total, adoption_steps(LEAST_PAIRS, least_window, policy.settle_steps))


def pair_window_steps(left: float, usual: int, policy: Policy) -> int:
    """Return the steps of each window of a pair: the usual number, or fewer so that enough pairs fit.

    Args:
        left: Steps that the test may take; infinite without a budget.
        usual: Steps of a usual window.
        policy: Constants of the policy.
    """
    fitting = (left / policy.test_pairs - policy.settle_steps) / 2
    return int(max(min(fitting, usual), min(policy.least_window_steps, usual)))


def pairs_needed(gain: float, noise: WindowNoise, window_steps: int) -> int:
    """Return the number of pairs that is expected to show a gain, with the lower end of its interval at zero or above.

    Args:
        gain: Expected gain, ln(baseline / challenger), above zero.
        noise: Noise of windows.
        window_steps: Steps of each window of a pair.
    """
    variance = noise.pair_variance(window_steps)
    for pairs in range(LEAST_PAIRS, MOST_PAIRS):
        quantile = student_t_quantile(pairs - 1 + noise.weight, 1.0 - ERROR)
        if gain >= quantile * math.sqrt(variance / pairs):
            return pairs
    return MOST_PAIRS


@dataclass
class ExplorationAccount:
    """Exploration budget: cost of all configs that the searches of a job have tried, against the time of the job.

    Attributes:
        began_s: Start of the first search on the run's clock, seconds.
        spent_s: Cost of the finished searches, seconds; a search that gained time counts as 0.
    """

    began_s: float
    spent_s: float = 0.0

    def is_overdrawn(
        self, policy: Policy, now_s: float, cost_s: float, risk_s: float = 0.0, planned_s: float = 0.0
    ) -> bool:
        """Return whether the next trial might exceed the exploration budget.

        Args:
            policy: Constants of the policy.
            now_s: Time on the run's clock, seconds.
            cost_s: Cost of the current search, seconds; below zero if it has gained time on the whole.
            risk_s: Largest likely cost of the next trial, seconds.
            planned_s: Planned length of the run, seconds; 0 without a budget of seconds.
        """
        elapsed_s = now_s - self.began_s
        if elapsed_s <= policy.exploration_grace_s:
            return False
        return self.spent_s + cost_s + risk_s > policy.exploration_share * max(elapsed_s, planned_s)

    def close_search(self, cost_s: float) -> None:
        """Add the cost of a finished search, seconds."""
        self.spent_s += max(cost_s, 0.0)
