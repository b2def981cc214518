# SPDX-License-Identifier: Apache-2.0
"""Tests of the explanation of a single measured step."""

import pytest

from ringtune.tuner.priors.cost_model import EngineCosts, JobShape, expected_step_s, explained
from ringtune.tuner.space.parameters import default_config

JOB = JobShape((400_000,) * 100, (2, 2))
DEFAULT = default_config()


@pytest.mark.parametrize("compute_s", [0.05, 0.2, 3.0])
def test_with_usual_constants_it_is_the_computing_that_the_model_would_have_needed(compute_s: float) -> None:
    """The way there and back, to a thousandth."""
    (step_s,) = expected_step_s(JOB, EngineCosts(), compute_s, [DEFAULT])

    costs, found_s = explained(JOB, EngineCosts(), DEFAULT, step_s)

    assert costs == EngineCosts()
    assert found_s == pytest.approx(compute_s, rel=2e-3)


@pytest.mark.parametrize("step_s", [1e-3, 0.1])
def test_a_step_that_is_too_short_for_its_messages_has_quicker_links(step_s: float) -> None:
    """A step that is too short for its messages still computes for a while, and takes as long as it was measured."""
    costs, compute_s = explained(JOB, EngineCosts(), DEFAULT, step_s)

    assert float(costs.link.byte_s) < float(EngineCosts().link.byte_s) / 2
    assert 0.1 * step_s < compute_s < step_s
    assert expected_step_s(JOB, costs, compute_s, [DEFAULT])[0] == pytest.approx(step_s, rel=5e-3)
