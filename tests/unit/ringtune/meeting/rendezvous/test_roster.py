# SPDX-License-Identifier: Apache-2.0
"""Decisions of rosters: the workers of a meeting, its beginning, and the order of the ranks."""

import math
from collections.abc import Sequence

import pytest

from ringtune.meeting.rendezvous.roster import FixedRoster, Gathering, RangeRoster, Worker, by_seniority, in_rank_order


def newcomer(arrival: int, host: str = "a") -> Worker:
    """Return a worker that has taken part in no meeting."""
    return Worker(arrival, "", host, host, 100 + arrival)


def survivor(arrival: int, rank: int, host: str = "a", meetings: tuple[int, int] = (0, 0)) -> Worker:
    """Return a worker that has taken part in meetings, from the first to the latest."""
    return Worker(arrival, "", host, host, 100 + arrival, *meetings, rank)


def gathering(*present: Worker, quiet_s: float = 0.0) -> Gathering:
    """Return workers that wait."""
    return Gathering(present, quiet_s, quiet_s)


def arrivals(workers: Sequence[Worker] | None) -> list[int]:
    """Return the numbers of workers that meet; a meeting is expected."""
    assert workers is not None
    return [worker.arrival for worker in workers]


@pytest.mark.parametrize(
    ("workers", "expected"),
    [
        ([newcomer(0, "a"), newcomer(1, "b"), newcomer(2, "a"), newcomer(3, "b")], [0, 2, 1, 3]),
        ([newcomer(0, "a"), survivor(1, 3, "b"), survivor(2, 1, "c"), newcomer(3, "b")], [2, 1, 3, 0]),
        ([survivor(0, 2, "a"), survivor(1, 0, "b"), survivor(2, 1, "b"), newcomer(3, "a")], [1, 2, 0, 3]),
        ([survivor(0, 0, "a", (0, 1)), survivor(1, 0, "b", (3, 4)), newcomer(2, "c")], [1, 0, 2]),
        ([survivor(1, 1, "a", (4, 4)), survivor(0, 2, "b", (0, 4))], [0, 1]),
        ([newcomer(1, "b"), newcomer(0, "a")], [0, 1]),
    ],
)
def test_survivors_come_first_and_hosts_stay_together(workers: list[Worker], expected: list[int]) -> None:
    """Survivors keep their order, the longest there first; a host's ranks are contiguous; others follow by arrival."""
    assert expected == arrivals(in_rank_order(workers))


def test_a_survivor_goes_before_a_newcomer_of_a_better_host() -> None:
    """A worker that has state is chosen first, whatever its host."""
    workers = [newcomer(0, "a"), survivor(1, 0, "a"), survivor(2, 1, "b")]

    assert [1, 2, 0] == arrivals(by_seniority(workers))
    assert [1, 2] == arrivals(RangeRoster(1, 2, 0.0).meeting(gathering(*workers)))


def test_a_fixed_number_waits_for_all() -> None:
    """The meeting begins with the last one; the error names how many are missing, and the present."""
    roster = FixedRoster(2)

    assert roster.meeting(gathering(newcomer(0))) is None
    assert math.inf == roster.next_look_s()
    assert [0, 1] == arrivals(roster.meeting(gathering(newcomer(0), newcomer(1))))
    assert "1 of 2 workers is missing; present: host a, pid 100" == roster.describe_missing([newcomer(0)])
    assert "2 of 2 workers are missing; present: none" == roster.describe_missing([])


def test_a_fixed_number_turns_further_workers_away() -> None:
    """The sentence names the workers that are there already; the place of a lost worker can be taken."""
    roster = FixedRoster(2)

    assert roster.refusal(newcomer(1), [newcomer(0)]) is None
    refusal = roster.refusal(newcomer(2), [newcomer(0), Worker(1, "n2-0", "b", "n2", 7)])
    assert refusal is not None
    assert "the job has its 2 workers already (host a, pid 100; 'n2-0', host n2, pid 7)" in refusal
    assert not roster.wants_update([survivor(0, 0)], [newcomer(1)])


def test_a_range_waits_a_while_for_more() -> None:
    """The first meeting of fewer than the largest number begins after a quiet time, of the largest at once."""
    roster = RangeRoster(2, 3, 5.0)

    assert roster.meeting(gathering(newcomer(0), quiet_s=60)) is None
    assert math.inf == roster.next_look_s()
    assert roster.meeting(gathering(newcomer(0), newcomer(1), quiet_s=1.5)) is None
    assert 3.5 == roster.next_look_s()
    assert [0, 1] == arrivals(roster.meeting(gathering(newcomer(0), newcomer(1), quiet_s=5)))
    assert [0, 1, 2] == arrivals(roster.meeting(gathering(newcomer(0), newcomer(1), newcomer(2))))
    assert "1 of 2 workers is missing; present: host a, pid 100" == roster.describe_missing([newcomer(0)])


def test_a_range_does_not_keep_survivors_waiting() -> None:
    """After a loss the next meeting begins at once, if enough are left."""
    roster = RangeRoster(2, 4, 5.0)
    roster.met(0, [survivor(0, 0), survivor(1, 1), survivor(3, 2)])

    assert [0, 3] == arrivals(roster.meeting(gathering(survivor(0, 0), survivor(3, 2))))
    assert roster.meeting(gathering(survivor(3, 2))) is None


def test_a_range_keeps_spare_workers_and_tells_of_those_it_has_room_for() -> None:
    """A worker over the largest number waits; no update is sent for it."""
    roster = RangeRoster(1, 2, 5.0)
    members = [survivor(0, 0), survivor(1, 1)]

    assert roster.refusal(newcomer(2), members) is None
    assert not roster.wants_update(members, [newcomer(2)])
    assert roster.wants_update(members[:1], [newcomer(2)])
    assert not roster.wants_update(members[:1], [])
