# SPDX-License-Identifier: Apache-2.0
"""Ordinary training loops on two ranks end as in one process on the joined batch, or are refused on every rank."""

import re
from functools import cache
from pathlib import Path

import pytest

from tests.integration.jobs import Finished, ranks, run_job

LOOPS = Path(__file__).with_name("training_loops")
FAMILIES = ("parameters", "gradients", "own_updates", "assigned", "states", "models")


def _names(family: str) -> list[str]:
    text = (LOOPS / f"{family}.py").read_text(encoding="utf-8")
    return re.findall(r"^def loop_(\w+)", text, re.MULTILINE)


@cache
def _finished(family: str) -> Finished:
    """Run a family's loops in one job: each starts from the world alone."""
    return run_job(ranks(2, "training_loops", family), {"RINGTUNE_TIMEOUT_S": "60"})


@pytest.mark.parametrize(("family", "name"), [(family, name) for family in FAMILIES for name in _names(family)])
def test_loop_ends_as_in_one_process(family: str, name: str) -> None:
    """Both ranks say that the loop agrees; a loop behind one that failed was not reached."""
    finished = _finished(family)

    assert 2 == len(re.findall(rf"^{name}: agrees$", finished.stdout, re.MULTILINE)), finished.text


@pytest.mark.parametrize("family", FAMILIES)
def test_job_ends_well(family: str) -> None:
    """A job of training loops leaves with success, so that no tensor is left in flight."""
    finished = _finished(family)

    assert 0 == finished.code, finished.text
