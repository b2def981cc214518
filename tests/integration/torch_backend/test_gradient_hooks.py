# SPDX-License-Identifier: Apache-2.0
"""Compiled hooks of `DistributedOptimizer` take the gradients of a step, but the first, which watch the weights."""

import pytest

from ringtune.torch.weight_watch import MOST_SAMPLES
from tests.integration.jobs import ranks, run_job
from tests.integration.torch_backend.forms import FORMS

SEEN = {"python": 20, "compiled": MOST_SAMPLES}


@pytest.mark.parametrize("form", FORMS)
def test_python_sees_the_first_gradients_of_a_step_alone(form: str) -> None:
    """In Python's form it sees all; in both the ranks' weights stay equal."""
    finished = run_job(ranks(2, "hooks_seen", form))

    assert 0 == finished.code, finished.text
    assert 2 == finished.stdout.count(f"{SEEN[form]} of 20 gradients came to Python"), finished.text
