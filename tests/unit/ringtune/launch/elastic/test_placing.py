# SPDX-License-Identifier: Apache-2.0
"""Placing of workers: hosts that get new ones, and workers that leave."""

from hypothesis import given
from hypothesis import strategies as st

from ringtune.launch.elastic.answers import FoundHost
from ringtune.launch.elastic.crew import CrewMember
from ringtune.launch.elastic.placing import leavers, starts

INFINITE = float("inf")


def crew(*hosts: str, leaving: tuple[int, ...] = ()) -> list[CrewMember]:
    """Return a running worker on each of some hosts."""
    return [CrewMember(n, host, leave_by_s=1.0 if n in leaving else None) for n, host in enumerate(hosts)]


def test_hosts_are_filled_in_their_order_up_to_the_largest_number() -> None:
    """Slots that are taken count."""
    hosts = [FoundHost("a", 2), FoundHost("b", 4), FoundHost("c", 4)]

    assert {"a": 1, "b": 4, "c": 4} == starts(hosts, crew("a"), INFINITE)
    assert {"a": 1, "b": 1} == starts(hosts, crew("a"), 3)
    assert {} == starts(hosts, crew("a"), 1)


def test_a_worker_that_is_to_leave_holds_its_slot_but_not_its_place_in_the_job() -> None:
    """Its successor starts on another host at once, and on its own host once it has ended."""
    leaving = crew("a", "b", leaving=(0,))

    assert {"c": 1} == starts([FoundHost("a", 1), FoundHost("b", 1), FoundHost("c", 5)], leaving, 2)
    assert {} == starts([FoundHost("a", 1), FoundHost("b", 1)], leaving, 2)


def test_the_youngest_leave_a_host_with_fewer_slots() -> None:
    """All workers leave a host that was removed; no worker leaves twice."""
    workers = crew("a", "a", "b", "a", leaving=(3,))

    assert [1] == [member.number for member in leavers({"a": 1, "b": 1}, workers, INFINITE)]
    assert [0, 1] == [member.number for member in leavers({"b": 1}, workers, INFINITE)]
    assert [] == leavers({"a": 2, "b": 1}, workers, INFINITE)
    assert [2] == [member.number for member in leavers({"a": 2, "b": 1}, workers, 2)]


@given(
    st.dictionaries(st.sampled_from("abcd"), st.integers(0, 5)),
    st.lists(st.tuples(st.sampled_from("abcde"), st.booleans()), max_size=20),
    st.integers(1, 12),
)
def test_no_host_ever_has_more_workers_than_slots(
    slots: dict[str, int], running: list[tuple[str, bool]], most: int
) -> None:
    """After those have left that are to leave, and those are started that may be."""
    workers = [CrewMember(n, host, leave_by_s=1.0 if leaves else None) for n, (host, leaves) in enumerate(running)]
    for member in leavers(slots, workers, most):
        member.leave_by_s = 1.0
    counts = starts([FoundHost(host, number) for host, number in slots.items()], workers, most)

    staffed = [member.host for member in workers if member.is_staffed]
    total = {host: staffed.count(host) + counts.get(host, 0) for host in {*staffed, *counts}}
    assert all(count <= slots.get(host, 0) for host, count in total.items())
    assert sum(total.values()) <= most
