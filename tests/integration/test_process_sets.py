# SPDX-License-Identifier: Apache-2.0
"""Process sets of real ranks: worlds of some of the ranks, beside the global one."""

from pathlib import Path

import pytest

from tests.integration.hosts import hosts, needs_hosts
from tests.integration.jobs import program, ranks, run_job
from tests.integration.ports import free_port
from tests.integration.worlds import explicit, run_all


@pytest.mark.parametrize("transport", ["auto", "tcp"])
def test_sets_are_worlds_of_their_own(transport: str) -> None:
    """Static and dynamic ones, at the same time as the global world, refused where ranks disagree, and removed."""
    finished = run_job(ranks(4, "process_sets"), {"RINGTUNE_TRANSPORT": transport})

    assert 0 == finished.code, finished.text
    assert 4 == finished.stdout.count("is right"), finished.text
    assert 4 == finished.stdout.count("went on meanwhile"), finished.text


@needs_hosts
def test_sets_span_hosts() -> None:
    """Sets inside a host share its memory, others are connected, whatever the order of the ranks."""
    with hosts(2) as made:
        address = f"tcp://{made[0].address}:{free_port()}"
        commands = [made[rank // 2].command(*program("process_sets")) for rank in range(4)]

        finished = run_all(commands, [explicit(rank, 4, address) for rank in range(4)])

    for rank in finished:
        assert 0 == rank.code, rank.text
        assert "is right" in rank.stdout


@pytest.mark.parametrize("transport", ["auto", "tcp"])
def test_a_lost_rank_is_everybodys_error_in_sets_too(tmp_path: Path, transport: str) -> None:
    """A waiter in a set hears of a killed rank, as a waiter in the global world does."""
    finished = run_job(ranks(3, "lost_in_set", str(tmp_path)), {"RINGTUNE_TRANSPORT": transport})

    assert 128 + 9 == finished.code, finished.text
    assert "rank 0 lost the set" in finished.stdout, finished.text
    assert "rank 2 lost the world" in finished.stdout, finished.text
