# SPDX-License-Identifier: Apache-2.0
"""Tests of the cost model as a prior: its calibration, and that it agrees with what it is made for."""

import numpy as np
import pytest

from ringtune.tuner import Prior, Trial, default_config
from ringtune.tuner.cost_model import CostModelPrior, EngineCosts, JobShape, LinkCosts, expected_step_s
from ringtune.tuner.testing import measured_trial, poor_baseline

JOB = JobShape((512 * 1024,) * 200, (2, 2))
COSTS = EngineCosts()
MADE_UP_COMPUTE_S = 0.3


def prior() -> Prior:
    """Return what is tested, as designers see it."""
    return CostModelPrior(JOB, COSTS)


def test_the_computing_is_what_explains_the_baseline() -> None:
    """So of steps that follow the model, all are expected as they are."""
    configs = [poor_baseline(), default_config(), default_config().replace({"hierarchical_allreduce": True})]
    true_ms = 1e3 * expected_step_s(JOB, COSTS, MADE_UP_COMPUTE_S, configs)

    expected = prior().log_step_ms(configs, [measured_trial(0, configs[0], [float(true_ms[0])])])

    assert np.allclose(np.log(true_ms), expected, atol=1e-4)


@pytest.mark.parametrize("step_ms", [0.001, 1.0, 1e7])
def test_whatever_the_baseline_takes_it_expects_something_finite(step_ms: float) -> None:
    """Also steps that are shorter than the model says communication alone is."""
    trials = [measured_trial(0, default_config(), [step_ms])]

    expected = prior().log_step_ms([default_config(), poor_baseline()], trials)

    assert np.all(np.isfinite(expected))


def test_before_the_baseline_was_measured_it_takes_a_usual_step() -> None:
    """A designer may ask although every window was void."""
    configs = [default_config(), poor_baseline()]

    unmeasured = prior().log_step_ms(configs, [Trial(0, default_config())])

    assert np.allclose(prior().log_step_ms(configs, [measured_trial(0, default_config(), [100.0])]), unmeasured)


def test_a_job_that_communicates_little_is_expected_to_gain_little() -> None:
    """On a fast link with much computing, no config is expected to differ by a percent from another good one."""
    fast = CostModelPrior(JOB, EngineCosts(link=LinkCosts(latency_s=5e-6, byte_s=0.1e-9)))
    configs = [default_config().replace({"fusion_bytes": size << 20}) for size in (4, 16, 64)]

    expected = fast.log_step_ms(configs, [measured_trial(0, default_config(), [2000.0])])

    assert np.ptp(expected) < 0.01
