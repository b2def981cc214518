# SPDX-License-Identifier: Apache-2.0
"""Gradients that are rounded between hosts, where the user says so and nowhere else."""

from pathlib import Path

import pytest

from ringtune.measuring.bench.network import joined_hosts
from ringtune.tuner import read_log
from tests.integration.hosts import needs_hosts
from tests.integration.jobs import program
from tests.integration.networked_jobs import run_on
from tests.integration.quick_tuning import QUICK, UNTIL_DECIDED

pytestmark = needs_hosts

RATE = 200_000_000  # bits per second: two busy cores do not limit it


@pytest.mark.parametrize("hosts", [2, 3])
def test_gradients_alone_are_rounded_and_only_under_bf16(hosts: int) -> None:
    """Rank 0 switches at every step: gradients follow at once, and the metric's sum stays exact throughout."""
    with joined_hosts(hosts, RATE) as network:
        finished = run_on(network, *program("rounded"))

    expected = "gradients=[('bf16', 256.0), ('exact', 257.0)] metrics=[257.0] rounded=3"
    assert [expected] * hosts == finished.stdout.splitlines()


def test_a_setting_rounds_without_a_tuner() -> None:
    """`RINGTUNE_WIRE` holds from the first step."""
    with joined_hosts(2, RATE) as network:
        finished = run_on(network, *program("rounded", "unswitched"), RINGTUNE_WIRE="bf16")

    assert ["gradients=[('bf16', 256.0)] metrics=[257.0] rounded=6"] * 2 == finished.stdout.splitlines()


@pytest.mark.parametrize("is_allowed", [True, False])
def test_the_tuner_rounds_only_where_it_may(is_allowed: bool, tmp_path: Path) -> None:
    """Without `AUTOTUNE_ALLOW=wire` the knob has one value in the search space."""
    log = tmp_path / "log"
    allowed = {"AUTOTUNE_ALLOW": "wire"} if is_allowed else {}
    with joined_hosts(2, RATE) as network:
        run_on(network, *program("tuned", "6", UNTIL_DECIDED, "marked"), **QUICK, **allowed, AUTOTUNE_LOG=str(log))

    run = read_log(log).runs[0].run
    assert run is not None
    assert is_allowed is ("wire" not in run.search_space["fixed"])
