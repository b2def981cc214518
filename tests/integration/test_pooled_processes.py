# SPDX-License-Identifier: Apache-2.0
"""Processes that have met others before meet fresh ones: Spark's Python workers, Ray's actors, elastic's survivors."""

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack

import pytest

from tests.integration.jobs import Finished, forked, started_by_fork
from tests.integration.ports import free_port

Variables = Mapping[str, str]
Meeting = Callable[[int], list[Variables]]
LIMIT = {"RINGTUNE_TIMEOUT_S": "60"}


def explicit(world_size: int) -> list[Variables]:
    """Return the places of a meeting under a new job key."""
    shared = {
        "RINGTUNE_WORLD_SIZE": f"{world_size}",
        "RINGTUNE_RENDEZVOUS": f"tcp://127.0.0.1:{free_port()}",
        "RINGTUNE_JOB_KEY": secrets.token_hex(32),
    }
    return [{**shared, "RINGTUNE_RANK": str(rank)} for rank in range(world_size)]


def process_group(world_size: int) -> list[Variables]:
    """Return the places of a meeting in a process group of torch's."""
    shared = {"WORLD_SIZE": str(world_size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    return [{**shared, "RANK": str(rank)} for rank in range(world_size)]


def meet(places_of: Sequence[Sequence[Variables]]) -> list[Finished]:
    """Run one process for each sequence of places, all at once, and return how they ended."""
    with ExitStack() as stack:
        commands = [forked("meets_again", json.dumps(list(places))) for places in places_of]
        jobs = [stack.enter_context(started_by_fork(command, LIMIT)) for command in commands]
        return [job.wait() for job in jobs]


@pytest.mark.parametrize("meeting", [explicit, process_group])
def test_two_reused_workers_meet_a_new_one(meeting: Meeting) -> None:
    """A pool of Python workers grows for a larger job."""
    first, second = meeting(2), meeting(3)

    finished = meet([[first[0], second[0]], [first[1], second[1]], [second[2]]])

    assert [0, 0, 0] == [each.code for each in finished], [each.text for each in finished]
    assert "2 of 3 counted 3" in finished[2].stdout


@pytest.mark.parametrize("meeting", [explicit, process_group])
def test_a_new_worker_is_rank_0_of_reused_ones(meeting: Meeting) -> None:
    """A fresh actor leads two that have met twice before."""
    meetings = [meeting(2), meeting(2), meeting(3)]
    (a, b), (c, d), (new, e, f) = meetings

    finished = meet([[a, c, e], [b, d, f], [new]])

    assert [0, 0, 0] == [each.code for each in finished], [each.text for each in finished]
    assert "0 of 3 counted 3" in finished[2].stdout


@pytest.mark.parametrize("meeting", [explicit, process_group])
def test_workers_that_have_met_differently_often_meet(meeting: Meeting) -> None:
    """One worker has met a colleague once, one never, and one twice; the ranks of a survivor may change."""
    pair, again, all_three = meeting(2), meeting(2), meeting(3)

    finished = meet([[pair[0], again[1], all_three[2]], [pair[1], all_three[0]], [again[0], all_three[1]]])

    assert [0, 0, 0] == [each.code for each in finished], [each.text for each in finished]
    assert all("of 3 counted 3" in each.stdout for each in finished)
