# SPDX-License-Identifier: Apache-2.0
"""Tests of the prediction for a job before its first sample."""

import numpy as np
import pytest

from ringtune.tuner import Prior, default_config
from ringtune.tuner.testing import measured_trial, poor_baseline
from ringtune.tuning.engine.cost_prior import ELEMENT_BYTES, job_prior
from ringtune.world.algorithm_tables.table import CallTime

GRADIENTS = {("float32", (1024, 256)): 20, ("bfloat16", (256,)): 20, ("float32", ()): 1}
TRIALS = [measured_trial(0, default_config(), [60.0])]
CONFIGS = [default_config(), poor_baseline()]


def expected_loss(prior: Prior | None) -> float:
    """Return the expected slow-down of the poor baseline, as ln."""
    assert prior is not None
    good, poor = prior.log_step_ms(CONFIGS, TRIALS)
    return float(poor - good)


def test_the_start_of_the_job_says_what_small_messages_cost() -> None:
    """Single gradients are expected to be worse after calls at the start took a millisecond each."""
    quick, slow = (
        job_prior(GRADIENTS, [2], [CallTime(1024, call_s), CallTime(1 << 20, call_s + 1e-4)], is_hierarchical=False)
        for call_s in (5e-6, 1e-3)
    )

    assert expected_loss(slow) > expected_loss(quick) + 0.1


def test_between_hosts_the_algorithm_that_was_measured_counts() -> None:
    """The same times, of a ring of sixteen ranks or of counterparts on four hosts, speak of another link."""
    calls = [CallTime(1024, 6e-3), CallTime(1 << 20, 2e-2)]
    flat, hierarchical = (
        job_prior(GRADIENTS, [4] * 4, calls, is_hierarchical=is_hierarchical) for is_hierarchical in (False, True)
    )

    assert expected_loss(hierarchical) > expected_loss(flat)


def test_without_measured_calls_usual_constants_are_taken() -> None:
    """A single call cannot tell latency from bandwidth either."""
    none = job_prior(GRADIENTS, [2], [], is_hierarchical=False)
    one = job_prior(GRADIENTS, [2], [CallTime(1024, 5e-6)], is_hierarchical=False)

    assert none is not None
    assert one is not None
    assert np.allclose(none.log_step_ms(CONFIGS, TRIALS), one.log_step_ms(CONFIGS, TRIALS))


@pytest.mark.parametrize(
    ("gradients", "ranks_per_host"), [({}, [2]), ({("float32", (0, 4)): 3}, [2]), (GRADIENTS, [1])]
)
def test_where_nothing_is_reduced_nothing_is_expected(
    gradients: dict[tuple[str, tuple[int, ...]], int], ranks_per_host: list[int]
) -> None:
    """No gradients, none with an element, or no other rank to reduce them with."""
    assert job_prior(gradients, ranks_per_host, [], is_hierarchical=False) is None


def test_every_type_that_the_engine_reduces_has_a_size() -> None:
    """The sizes are numpy's, which knows no bfloat16."""
    sizes = {name: np.dtype(name).itemsize for name in ELEMENT_BYTES if name != "bfloat16"}

    assert {**sizes, "bfloat16": 2} == ELEMENT_BYTES
