# SPDX-License-Identifier: Apache-2.0
"""Measurements after tuning, and Horovod's scheme, on a synthetic job."""

import math
from dataclasses import replace

import pytest

from benchmarks.tuner.live.afterwards import Windows, long_search
from benchmarks.tuner.live.horovod import WINDOW_STEPS, search_like_horovod
from ringtune.tuner import Config, VoidReason, Window, WindowSpec
from ringtune.tuner.policy_numbers import POLICY
from ringtune.tuner.testing import Disturbances, SyntheticTarget, engine_like_surface, poor_baseline

QUIET = Disturbances(step_noise=0.01, window_noise=0.0)


def true_speedup(config: Config) -> float:
    """Return a config's speed-up over the poor baseline on the synthetic surface."""
    return math.exp(engine_like_surface(poor_baseline()) - engine_like_surface(config)) - 1.0


def test_a_gain_is_that_of_the_job() -> None:
    """The interval holds the true speed-up, and the job goes on under the config."""
    target = SyntheticTarget(baseline=poor_baseline(), disturbances=QUIET, seed=2)
    config = poor_baseline().replace({"fusion_bytes": 64 * 2**20})
    windows = Windows(target)

    found = windows.gain(config, 10)
    windows.leave(config)

    assert found.low - 0.02 < true_speedup(config) < found.high + 0.02
    assert math.exp(engine_like_surface(poor_baseline())) == pytest.approx(found.baseline_ms, rel=0.02)
    assert config == target.applied[-1]


class VoidTarget(SyntheticTarget):
    """A target under which windows without fusion are void."""

    def _window(self, spec: WindowSpec) -> Window:
        window = super()._window(spec)
        is_void = self.applied[-1]["fusion_bytes"] == 0
        return replace(window, step_ms=(), void_reason=VoidReason.PAUSE) if is_void else window


def test_a_config_whose_windows_are_void_has_no_gain_and_is_not_the_best() -> None:
    """A step of many seconds is no number to be sorted by."""
    baseline = poor_baseline().replace({"fusion_bytes": 64 * 2**20})
    target = VoidTarget(baseline=baseline, disturbances=QUIET, seed=2)
    windows = Windows(target)
    without = baseline.replace({"fusion_bytes": 0})

    best = long_search(windows, target.space(), baseline, 0, 2)

    assert -1.0 == windows.gain(without, 2).speedup
    assert math.inf == best.single_ratios["fusion_bytes=0"]
    assert best.gain.config["fusion_bytes"] != 0


def test_the_long_search_finds_a_config_far_ahead_of_a_poor_baseline() -> None:
    """The values of knobs that gained alone are joined: better than any single change."""
    target = SyntheticTarget(baseline=poor_baseline(), disturbances=QUIET, seed=2)

    best = long_search(Windows(target), target.space(), poor_baseline(), 0, 6)

    found = best.gain
    single = poor_baseline().replace({"cycle_ms": found.config["cycle_ms"]})
    assert true_speedup(single) < true_speedup(Config(found.config))
    assert found.low - 0.02 < true_speedup(Config(found.config)) < found.high + 0.02
    assert {name.partition("=")[0] for name in best.single_ratios} == {each.name for each in target.space().free}


def test_horovods_scheme_takes_no_more_steps_than_it_is_given_and_improves() -> None:
    """The remaining steps would not be enough for a sample."""
    target = SyntheticTarget(baseline=poor_baseline(), disturbances=QUIET, seed=2)

    found = search_like_horovod(target, 0, 400)

    assert 400 - (WINDOW_STEPS + POLICY.settle_steps) < found.steps <= 400
    assert true_speedup(found.config) > 0
