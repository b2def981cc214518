# SPDX-License-Identifier: Apache-2.0
"""Tests of tuning that was not asked for: its cost is a small share of the job's time at every moment."""

import math

import pytest

from ringtune.tuner import Config, Window, WindowSpec
from ringtune.tuner.policy.unasked import BEGINS_AFTER_S, UNASKED_LIMITS, UNASKED_POLICY
from ringtune.tuner.testing import SyntheticTarget, engine_like_surface, poor_baseline
from tests.unit.tuner.policy.changing_target import Job, tune_for

HOURS = 2.0


class CountedTarget(SyntheticTarget):
    """A target that counts the noise-free cost of its configs.

    Attributes:
        lost_s: Seconds lost against the baseline so far.
        worst_share: Largest share of the job's time so far that was lost.
    """

    lost_s = 0.0
    worst_share = 0.0

    def _window(self, spec: WindowSpec) -> Window:
        window = super()._window(spec)
        slower = 1.0 - math.exp(self._surface(self._baseline) - self._surface(self.applied[-1]))
        self.lost_s += slower * sum(window.step_ms) * 1e-3
        self.worst_share = max(self.worst_share, self.lost_s / (self.now_s + BEGINS_AFTER_S))
        return window


def unasked(target: SyntheticTarget) -> Job:
    """Tune a target that has trained for a minute, as under `AUTOTUNE=auto`."""
    samples = UNASKED_LIMITS.max_samples
    return tune_for(target, HOURS, trained_s=BEGINS_AFTER_S, policy=UNASKED_POLICY, max_samples=samples)


@pytest.mark.parametrize("seed", range(4))
def test_tried_configs_cost_a_small_share_of_the_time_at_every_moment(seed: int) -> None:
    """Configs that are slower than the default wait until the job has trained for long enough."""
    target = CountedTarget(seed=seed)

    job = unasked(target)

    assert job.results
    assert 0.0 < target.worst_share <= 0.005


def dreadful(config: Config) -> float:
    """Return ln(step time in ms) where every other config takes nearly four times as long as the default."""
    return math.log(150.0 if config == SyntheticTarget().baseline() else 3.9 * 150.0)


def test_configs_that_take_four_times_as_long_cost_no_more() -> None:
    """No window has shown that yet when the first one is tried: it is feared."""
    target = CountedTarget(surface=dreadful)

    job = unasked(target)

    assert not job.results or not job.results[0].adopted
    assert 0.0 < target.worst_share <= 0.006


def test_a_better_config_is_found_all_the_same() -> None:
    """A default that is far from the best is left within ten minutes."""
    job = unasked(SyntheticTarget(surface=engine_like_surface, baseline=poor_baseline(), seed=1))

    assert job.results[0].adopted
    assert job.results[0].t_s < 600
