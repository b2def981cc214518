# SPDX-License-Identifier: Apache-2.0
"""Both schemes on a synthetic job, and Horovod's on DDP's buckets."""

import pytest

from benchmarks.tuner.live.schemes import HOROVOD, RINGTUNE, WINDOW_STEPS, BucketDesigner, conduct
from ringtune.ddp.buckets import BucketSizes, bucket_space
from ringtune.tuner import Config
from ringtune.tuner.policy_numbers import POLICY
from ringtune.tuner.space.parameters import MIB
from ringtune.tuner.testing import Disturbances, SyntheticTarget, engine_like_surface, measured_trial, poor_baseline

QUIET = Disturbances(step_noise=0.01, window_noise=0.0)
SIZES = BucketSizes(25 * MIB, MIB)
SPACE = bucket_space(SIZES, 100 * MIB, is_fixed=False)


@pytest.mark.parametrize("scheme", [RINGTUNE, HOROVOD])
def test_a_scheme_repairs_a_poor_baseline_and_its_gain_is_measured(scheme: str) -> None:
    """Afterwards, in pairs: the interval holds the true speed-up, and the config is in force."""
    target = SyntheticTarget(baseline=poor_baseline(), disturbances=QUIET, seed=2)

    found = conduct(target, scheme, [], seed=0, steps=400)

    chosen = Config(found.config)
    true_ms = [2.718281828 ** engine_like_surface(config) for config in (poor_baseline(), chosen)]
    assert found.is_changed
    assert found.low - 0.02 < true_ms[0] / true_ms[1] - 1.0 < found.high + 0.02
    assert chosen == target.applied[-1]
    assert found.payback_steps is not None
    assert true_ms[0] == pytest.approx(found.baseline_ms, rel=0.02)


def test_horovods_scheme_takes_no_more_steps_than_it_is_given() -> None:
    """The remaining steps would not be enough for a sample."""
    found = conduct(SyntheticTarget(disturbances=QUIET), HOROVOD, [], seed=0, steps=300)

    assert 300 - (WINDOW_STEPS + POLICY.settle_steps) < found.steps <= 300


def test_on_ddp_horovods_threshold_is_the_bucket() -> None:
    """In a box of megabytes; the first bucket keeps its size, and the best sample counts."""
    designer = BucketDesigner(SPACE, 0)
    baseline = SIZES.to_config()
    other = baseline.replace({"bucket_cap_mb": 4.0})
    trials = [measured_trial(0, baseline, [20.0]), measured_trial(1, other, [10.0])]

    designer.update(trials)
    suggested = designer.suggest().config
    means = designer.predict([baseline, other]).mean_log_step_ms

    assert SPACE.contains(suggested)
    assert baseline["first_bucket_bytes"] == suggested["first_bucket_bytes"]
    assert means[1] < means[0]
