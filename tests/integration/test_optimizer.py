# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer trains as one process on the joined batch would."""

import re

import pytest

from tests.integration.jobs import ranks, run_job

CASES = ("plain", "transposed", "state", "misuse")  # `training_loops` has others


@pytest.mark.parametrize("count", [1, 2])
def test_training_agrees_with_a_single_process(count: int) -> None:
    """All ways to use the optimizer agree with training alone, and all ranks end with the same bits."""
    finished = run_job(ranks(count, "optimizer"))

    assert 0 == finished.code, finished.text
    agreed = re.findall(r"^(\w+): right$", finished.stdout, re.MULTILINE)
    assert sorted(CASES * count) == sorted(agreed), finished.text
