# SPDX-License-Identifier: Apache-2.0
"""Shares by the rates of links, between hosts for real: bits, counters, and the tuner's space. No speed is asserted."""

from pathlib import Path

import pytest

from ringtune.measuring.bench.network import joined_hosts
from ringtune.tuner import read_log
from tests.integration.hosts import needs_hosts
from tests.integration.jobs import program
from tests.integration.networked_jobs import run_on
from tests.integration.quick_tuning import QUICK, UNTIL_DECIDED

pytestmark = needs_hosts

HOSTS = 3
RATE = 200_000_000  # bits per second: two busy cores do not limit it
SLOW = pytest.mark.parametrize("is_uneven", [True, False])


@SLOW
def test_bits_are_the_same_whatever_the_shares(is_uneven: bool) -> None:
    """Rank 0 switches under load; shares are uneven where the links are, and nowhere else."""
    with joined_hosts(HOSTS, RATE) as network:
        if is_uneven:
            network.set_rate(1, RATE // 2)
        finished = run_on(network, *program("skewed"))

    expected = f"results=1 measured=2 uneven={is_uneven} skewed={is_uneven}"
    assert [expected] * HOSTS == finished.stdout.splitlines()


@SLOW
def test_the_knob_is_tuned_where_the_measured_links_differ(is_uneven: bool, tmp_path: Path) -> None:
    """Between even links the tuner cannot adopt it: it has no place in the search space."""
    log = tmp_path / "log"
    with joined_hosts(HOSTS, RATE) as network:
        if is_uneven:
            network.set_rate(2, RATE // 2)
        run_on(network, *program("tuned", "6", UNTIL_DECIDED, "marked"), **QUICK, AUTOTUNE_LOG=str(log))

    run = read_log(log).runs[0].run
    assert run is not None
    assert is_uneven is ("skew" not in run.search_space["fixed"])
