# SPDX-License-Identifier: Apache-2.0
"""Tests of the config in force while exploration has cost too much: waiting may earn, but never costs."""

import math
import zlib
from itertools import accumulate

import pytest

from ringtune.tuner import Config, Phase, RunSettings, TuningRun, default_config, make_designer
from ringtune.tuner.logs.records import SampleRecord
from ringtune.tuner.policy.trials import BASELINE_ID
from ringtune.tuner.policy_numbers import POLICY
from ringtune.tuner.space.parameters import FIRST_KNOBS
from ringtune.tuner.testing import Disturbances, Surface, SyntheticTarget
from tests.unit.tuner.recording import RecordingLog, RecordingObserver, samples, tune

STEP_MS = 3000.0


def needle(config: Config) -> float:
    """Return about three times the default's step time for every other config, which no smooth model can predict."""
    place = zlib.crc32(str(sorted(config.items())).encode()) % 97
    return math.log(STEP_MS) + (0.0 if config == default_config() else 1.0 + 0.1 * math.sin(place))


def test_a_config_that_was_measured_to_be_slower_is_not_in_force_while_waiting() -> None:
    """The config while waiting is never one that was measured to be slower, whatever the model predicts."""
    target = SyntheticTarget(surface=needle, disturbances=Disturbances(step_noise=0.03), seed=0)
    designer, log = make_designer("gp", target.space(), 0), RecordingLog()

    TuningRun(target, designer, RunSettings(), log, RecordingObserver(), clock=target.clock).run()

    taken = [r for r in log.records if isinstance(r, SampleRecord)]
    waited_ms = [float(r.step_ms["median"] or 0.0) for r in taken if r.phase == Phase.WATCH]
    lost_s = sum(r.steps * (float(r.step_ms["mean"] or 0.0) - STEP_MS) * 1e-3 for r in taken)
    assert waited_ms
    assert max(waited_ms) < 1.1 * STEP_MS
    assert lost_s < POLICY.exploration_share * target.now_s


def gamble(fast: float, slow: float) -> Surface:
    """Return a surface on which every config but the default takes one or the other of its step time."""

    def surface(config: Config) -> float:
        knobs = sorted(item for item in config.items() if item[0] in FIRST_KNOBS)
        place = zlib.crc32(str(knobs).encode()) % 2
        return math.log(STEP_MS) + (0.0 if config == default_config() else math.log((fast, slow)[place]))

    return surface


def cost_s(record: SampleRecord) -> float:
    """Return the cost of a window of a config that is not the baseline; waiting earns or is free."""
    above_s = (float(record.step_ms["mean"] or 0.0) - STEP_MS) * 1e-3
    if record.phase == Phase.WATCH:
        return record.steps * min(above_s, 0.0)
    return (record.steps + POLICY.settle_steps) * above_s


@pytest.mark.parametrize(("fast", "slow"), [(0.7, 1.28), (1.0, 3.0)])
def test_after_the_first_minute_no_trial_costs_more_than_is_left(fast: float, slow: float) -> None:
    """At no time, not only in the end: once one has been cut, the next may cost as much, and has to wait for it."""
    target = SyntheticTarget(surface=gamble(fast, slow), disturbances=Disturbances(step_noise=0.001), seed=1)

    log = tune(target, settings=RunSettings(max_samples=30, seed=1)).records

    tried = [x for x in log if isinstance(x, SampleRecord) and x.trial_id != BASELINE_ID]
    totals_s = accumulate(cost_s(x) for x in tried)
    learnt_by = next(i for i, x in enumerate(tried) if cost_s(x) > 0.0)
    later = [
        x for x in list(zip(tried, totals_s, strict=True))[learnt_by + 1 :] if x[0].t_s > POLICY.exploration_grace_s
    ]
    assert len(later) > 10
    noise = 1.03  # windows of the wait that noise makes shorter than the baseline's earn, the others cost nothing
    assert all(total_s < noise * POLICY.exploration_share * record.t_s for record, total_s in later)


def test_a_search_ends_where_no_steps_are_left_to_wait() -> None:
    """Two trials overdraw the account; then a short one would still fit beside the test, but not into that."""
    target = SyntheticTarget(surface=gamble(1.0, 3.0), disturbances=Disturbances(step_noise=0.001), seed=0)
    settings = RunSettings(max_steps=100, max_samples=100, warmup_steps=0, steps_per_sample=10)

    outcome = tune(target, make_designer("gp", target.space(), 0), settings)

    tried, waited = samples(outcome, Phase.SEARCH), samples(outcome, Phase.WATCH)
    assert tried[-1].t_s > POLICY.exploration_grace_s
    assert sum(map(cost_s, tried)) > POLICY.exploration_share * target.now_s
    assert waited[0].t_s > tried[-1].t_s
