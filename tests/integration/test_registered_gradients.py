# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer's gradients live in registered memory; only the time of a step shows it."""

import re

import pytest

from tests.integration.jobs import ranks, run_job

PROGRAM = "torch_registered"
CASES = ("bits", "unused", "kept", "added", "rejoined", "forked", "joined", "elsewhere")


@pytest.mark.parametrize("count", [2, 3, pytest.param(1, marks=pytest.mark.long)])
def test_training_is_as_without(count: int) -> None:
    """Results, gradients that are absent or kept, worlds that end and forked children: all is as it was."""
    finished = run_job(ranks(count, PROGRAM))

    assert 0 == finished.code, finished.text
    right = re.findall(r"^(\w+): right$", finished.stdout, re.MULTILINE)
    assert sorted(CASES * count) == sorted(right), finished.text


def test_too_little_memory_is_said_once_and_training_goes_on() -> None:
    """One rank names the lack of memory, and gradients go the ordinary way."""
    finished = run_job(ranks(2, PROGRAM, "short"))

    assert 0 == finished.code, finished.text
    assert 2 == finished.stdout.count("short: right"), finished.text
    assert 1 == finished.stderr.count("gradients are copied on their way"), finished.text
    assert "ulimit -v" in finished.stderr, finished.text
