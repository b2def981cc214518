# SPDX-License-Identifier: Apache-2.0
"""Ranks never differ silently: DistributedOptimizer trains as one process would, or says on every rank why not."""

import re

import pytest

from tests.integration.jobs import ranks, run_job

CASES = {
    "optimizer_parameters": (
        "unfrozen",
        "added_by_hand",
        "rank_alone",
        "frozen_later",
        "used_by_some",
        "two_models",
        "shared",
        "wrapped_anew",
        "changed_form",
        "checkpointed",
        "adasum",
    ),
    "optimizer_in_flight": (
        "changed",
        "changed_sparse",
        "accumulated",
        "thrown_away",
        "synchronized",
        "scaler",
        "scaler_adasum",
        "one_state",
        "copied",
        "losses",
        "clipped_in_closure",
    ),
}


@pytest.mark.parametrize("count", [2, pytest.param(3, marks=pytest.mark.long)])
@pytest.mark.parametrize("program", CASES)
def test_ranks_end_equal_or_with_the_same_error(program: str, count: int) -> None:
    """Ranks never differ silently, whatever a training loop does to parameters, gradients and the optimizer."""
    finished = run_job(ranks(count, program))

    assert 0 == finished.code, finished.text
    agreed = re.findall(r"^(\w+): right$", finished.stdout, re.MULTILINE)
    assert sorted(CASES[program] * count) == sorted(agreed), finished.text
