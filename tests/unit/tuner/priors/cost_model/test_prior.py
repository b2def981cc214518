# SPDX-License-Identifier: Apache-2.0
"""Tests of the cost model as a prior: its calibration, and its agreement with true step times."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ringtune.tuner import Trial, default_config
from ringtune.tuner.priors.base import UncertainPrior
from ringtune.tuner.priors.cost_model import (
    CostModelPrior,
    EngineCosts,
    JobShape,
    LinkCosts,
    expected_step_s,
    fitted_costs,
)
from ringtune.tuner.priors.cost_model.calibration import COMPUTE_STD, SCALE_STDS, calibrated
from ringtune.tuner.testing import measured_trial, poor_baseline

CALL_BYTES = [1 << power for power in range(10, 25, 2)]
JOB = JobShape((512 * 1024,) * 200, (2, 2))
COSTS = EngineCosts()
MADE_UP_COMPUTE_S = 0.3


def prior() -> UncertainPrior:
    """Return the prior under test, as designers see it."""
    return CostModelPrior(JOB, COSTS)


def test_the_computing_is_what_explains_the_baseline() -> None:
    """Steps that follow the model are all predicted about as they are."""
    configs = [poor_baseline(), default_config(), default_config().replace({"hierarchical_allreduce": True})]
    true_ms = 1e3 * expected_step_s(JOB, COSTS, MADE_UP_COMPUTE_S, configs)

    expected = prior().log_step_ms(configs, [measured_trial(0, configs[0], [float(true_ms[0])])])

    assert np.allclose(np.log(true_ms), expected, atol=0.15)


def test_constants_that_the_start_got_wrong_are_learned_from_the_trials() -> None:
    """A constant of a link that all ranks fill together, and one alone does not, is learned from one config."""
    true_costs = EngineCosts(link=LinkCosts(contention=0.3))
    on = default_config().replace({"hierarchical_allreduce": True})
    configs = [default_config(), on, on.replace({"fusion_bytes": 4 << 20}), on.replace({"chunk_bytes": 2 << 20})]
    true_ms = 1e3 * expected_step_s(JOB, true_costs, MADE_UP_COMPUTE_S, configs)
    trials = [measured_trial(i, configs[i], [float(true_ms[i])]) for i in range(2)]

    before, after = (prior().log_step_ms(configs, trials[:count]) for count in (1, 2))

    errors = [float(np.abs(expected - np.log(true_ms))[2:].max()) for expected in (before, after)]
    assert errors[0] > 0.2
    assert errors[1] < 0.05


@pytest.mark.parametrize(("byte_std", "is_learned"), [(0.0, False), (3.0, True)])
def test_a_link_that_the_start_said_little_of_is_learned_from_the_trials(byte_std: float, is_learned: bool) -> None:
    """In a large ring latency hid it; steps that it dominates outweigh the guess, unless that was sure."""
    true, guessed = (EngineCosts(link=LinkCosts(byte_s=byte_s, byte_std=byte_std)) for byte_s in (8e-9, 0.8e-9))
    on = default_config().replace({"hierarchical_allreduce": True})
    configs = [default_config(), on, on.replace({"chunk_bytes": 4 << 20})]
    true_ms = 1e3 * expected_step_s(JOB, true, MADE_UP_COMPUTE_S, configs)
    trials = [measured_trial(i, configs[i], [float(true_ms[i])]) for i in range(2)]

    expected = CostModelPrior(JOB, guessed).log_step_ms(configs, trials)

    assert np.allclose(np.log(true_ms), expected, atol=0.05) == is_learned


def test_a_job_that_hardly_computes_is_recognised() -> None:
    """Communication many times longer than backward is hardly hidden, and a long cycle is free."""
    slow = EngineCosts(link=LinkCosts(latency_s=40e-6, byte_s=8e-9))
    job = JobShape((88_000,) * 158, (2, 2))
    on = default_config().replace({"hierarchical_allreduce": True})
    cycles = [on.replace({"cycle_ms": cycle_ms}) for cycle_ms in (0.3, 3.0, 10.0, 30.0)]
    configs = [default_config(), *cycles]
    true_ms = 1e3 * expected_step_s(job, slow, 0.013, configs)
    trials = [measured_trial(i, configs[i], [float(true_ms[i])]) for i in (0, 1, 3)]

    expected = CostModelPrior(job, slow).log_step_ms(configs, trials)

    assert np.allclose(np.log(true_ms), expected, atol=0.03)


def test_the_better_of_two_explanations_is_found() -> None:
    """Two configs of a job that computes little look much like one that computes much, where the fit usually begins."""
    seconds = [30 * (64e-6 + size / 16 * 0.95e-9) for size in CALL_BYTES]
    known = fitted_costs(CALL_BYTES, seconds, [4] * 4, is_hierarchical=False)
    true = replace(known, link=replace(known.link, contention=0.9))
    job = JobShape((180_000,) * 289, (4, 4, 4, 4), is_crowded=False)
    on = default_config().replace({"hierarchical_allreduce": True})
    chunks = [on.replace({"chunk_bytes": kib * 1024}) for kib in (256, 512, 2048, 4096)]
    configs = [default_config(), on, on.replace({"fusion_bytes": 4 << 20, "cycle_ms": 5.0}), *chunks]
    true_ms = 1e3 * expected_step_s(job, true, 0.02, configs)
    trials = [measured_trial(i, configs[i], [float(true_ms[i])]) for i in range(2)]

    expected = CostModelPrior(job, known).log_step_ms(configs, trials)

    assert np.allclose(np.log(true_ms), expected, atol=0.05)


def test_what_was_fitted_is_kept_where_several_sets_of_trials_are_asked_about_in_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A search that goes on, and the earlier study behind it."""
    fits = []

    def counted(*arguments: Any) -> Any:
        fits.append(arguments)
        return calibrated(*arguments)

    monkeypatch.setattr("ringtune.tuner.priors.cost_model.prior.calibrated", counted)
    model, configs = prior(), [default_config()]
    for _ in range(3):
        for step_ms in (100.0, 200.0):
            model.log_step_ms(configs, [measured_trial(0, default_config(), [step_ms])])

    assert len(fits) == 2


def test_one_outlier_does_not_bend_the_constants() -> None:
    """A step that took fifty times as long as the model could explain leaves the others as they are expected."""
    configs = [default_config(), *(default_config().replace({"cycle_ms": cycle_ms}) for cycle_ms in (0.2, 5.0, 20.0))]
    true_ms = 1e3 * expected_step_s(JOB, COSTS, MADE_UP_COMPUTE_S, configs)
    trials = [measured_trial(i, configs[i], [float(true_ms[i])]) for i in range(3)]
    awful = measured_trial(3, configs[3], [50.0 * float(true_ms[3])])

    expected = prior().log_step_ms(configs, [*trials, awful])

    assert np.allclose(np.log(true_ms), expected, atol=0.1)


@pytest.mark.parametrize("step_ms", [0.001, 1.0, 1e7])
def test_whatever_the_baseline_takes_it_expects_something_finite(step_ms: float) -> None:
    """The prediction is finite even for steps shorter than the model's communication alone."""
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


def test_on_a_slow_link_it_is_sure_what_all_ranks_get_out_of_it_together() -> None:
    """All ranks together get the bandwidth measured for one, on a link that dominates the work."""
    slow = CostModelPrior(JOB, EngineCosts(link=LinkCosts(byte_s=80e-9)))
    together = default_config().replace({"hierarchical_allreduce": True})

    jacobian = slow.jacobian([together], [measured_trial(0, default_config(), [15_000.0])])

    assert 0.0 < jacobian[0, len(SCALE_STDS)] < 0.05


def test_it_knows_which_configs_hang_on_which_constant() -> None:
    """A constant of a shared link matters to configs that send together alone; the computing matters to all."""
    flat, together = default_config(), default_config().replace({"hierarchical_allreduce": True})
    true_ms = 1e3 * expected_step_s(JOB, COSTS, MADE_UP_COMPUTE_S, [flat])
    trials = [measured_trial(0, flat, [float(true_ms[0])])]

    jacobian = prior().jacobian([flat, together], trials)

    of_contention, of_compute = jacobian[:, len(SCALE_STDS)], jacobian[:, -1]
    assert of_contention[0] == 0.0
    assert of_contention[1] > 0.05
    assert np.all(of_compute > 0.05)
    assert np.all(of_compute < COMPUTE_STD)
    assert np.all(np.isfinite(jacobian))


@pytest.mark.parametrize("unoverlapped_share", [0.2, 1.0, 2.0])
def test_what_chunks_cost_that_are_not_overlapped_is_unknown_until_one_was_tried(unoverlapped_share: float) -> None:
    """Only these hang on it, and one of them tells of the others."""
    on = default_config().replace({"hierarchical_allreduce": True})
    configs = [default_config(), on, *(on.replace({"chunk_bytes": mib << 20}) for mib in (2, 4, 8))]
    true_ms = 1e3 * expected_step_s(JOB, EngineCosts(unoverlapped_share=unoverlapped_share), MADE_UP_COMPUTE_S, configs)
    trials = [measured_trial(i, configs[i], [float(true_ms[i])]) for i in (0, 1, 3)]

    of_share = prior().jacobian(configs, trials[:2])[:, len(SCALE_STDS) + 1]
    expected = prior().log_step_ms(configs, trials)

    assert np.all(of_share[:3] == 0.0)
    assert np.all(of_share[3:] > 0.03)
    assert np.allclose(np.log(true_ms), expected, atol=0.03)
