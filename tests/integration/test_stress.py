# SPDX-License-Identifier: Apache-2.0
"""Allreduces of all dtypes between real hosts while every knob switches: no element may be wrong."""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from ringtune.session.submissions import REDUCIBLE
from tests.integration.hosts import hosts, needs_hosts
from tests.integration.jobs import DEADLINE_S, program
from tests.integration.worlds import explicit, running

pytestmark = needs_hosts

RANKS_PER_HOST = 2
RANKS = 2 * RANKS_PER_HOST
PORT = 29_400  # nothing else runs in these networks
DTYPES = set(REDUCIBLE)
ALLREDUCES_PER_SWITCH = 640  # at most: ten cycles of two batches; mostly a batch takes several
LIMIT_S = 1800.0


def stress(allreduces: int, limit_s: float) -> list[dict[str, Any]]:
    """Run the program on two hosts of two ranks to its good end, and return each rank's counts."""
    with hosts(2) as made:
        address = f"tcp://{made[0].address}:{PORT}"
        command = program("stress", str(allreduces))
        commands = [made[rank // RANKS_PER_HOST].command(*command) for rank in range(RANKS)]
        with running(commands, [explicit(rank, RANKS, address) for rank in range(RANKS)]) as jobs:
            finished = [job.wait(limit_s) for job in jobs]
    for rank in finished:
        assert 0 == rank.code, rank.text
        assert 1 == len(rank.stdout.splitlines()), rank.text  # others tell of wrong elements
    return [json.loads(rank.stdout) for rank in finished]


def check(counted: list[dict[str, Any]], allreduces: int) -> dict[str, int]:
    """Require that every case was exercised and no result wrong; return the figures."""
    assert [0] * RANKS == [rank["wrong"] for rank in counted]
    for rank in counted:
        assert sum(rank["allreduces"].values()) >= allreduces, rank
        assert set(rank["allreduces"]) == DTYPES, rank
        assert rank["cached_requests"] > 0, rank
        assert len(rank["algorithms"]) > 1, rank
    switches = {rank["config_switches"] for rank in counted}
    assert 1 == len(switches), switches
    assert min(switches) >= allreduces // ALLREDUCES_PER_SWITCH, switches
    first = counted[0]
    return {
        "allreduces": sum(first["allreduces"].values()),
        "cycles": first["cycles"],
        "config_switches": first["config_switches"],
        "wrong": sum(rank["wrong"] for rank in counted),
    }


def test_no_element_is_wrong_between_hosts_while_the_config_switches() -> None:
    """Random shapes of all dtypes, in place and not, are exact although all knobs change every ten cycles."""
    counted = stress(2_000, DEADLINE_S)

    check(counted, 2_000)


@pytest.mark.long
@pytest.mark.timeout(LIMIT_S + 60)
def test_no_element_of_a_million_allreduces_is_wrong(record_property: Callable[[str, object], None]) -> None:
    """The same a million times."""
    start_s = time.monotonic()

    counted = stress(1_000_000, LIMIT_S)

    figures = {**check(counted, 1_000_000), "seconds": round(time.monotonic() - start_s)}
    for name, value in figures.items():
        record_property(name, value)
    print(", ".join(f"{name}={value}" for name, value in figures.items()))  # noqa: T201
