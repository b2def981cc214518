# SPDX-License-Identifier: Apache-2.0
"""Tests of what a step computes, from how long it took."""

import pytest

from ringtune.tuner.cost_model import EngineCosts, JobShape, computing_s, expected_step_s
from ringtune.tuner.parameters import default_config

JOB = JobShape((400_000,) * 100, (2, 2))
DEFAULT = default_config()


@pytest.mark.parametrize("compute_s", [0.05, 0.2, 3.0])
def test_it_is_what_the_model_would_have_needed(compute_s: float) -> None:
    """The way there and back, to a thousandth."""
    (step_s,) = expected_step_s(JOB, EngineCosts(), compute_s, [DEFAULT])

    assert compute_s == pytest.approx(computing_s(JOB, EngineCosts(), DEFAULT, step_s), rel=2e-3)


def test_a_step_that_is_too_short_for_its_messages_computes_next_to_nothing() -> None:
    """The constants are off then; the answer is still a time."""
    assert 1e-6 == pytest.approx(computing_s(JOB, EngineCosts(), DEFAULT, 1e-3))
