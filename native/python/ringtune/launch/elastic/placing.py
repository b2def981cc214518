# SPDX-License-Identifier: Apache-2.0
"""Placing of workers: the hosts that get new ones, and the workers that leave. Pure."""

from collections import Counter
from collections.abc import Sequence

from .answers import FoundHost
from .crew import CrewMember


def starts(hosts: Sequence[FoundHost], crew: Sequence[CrewMember], most: float) -> dict[str, int]:
    """Return how many workers each host is to get; hosts are filled in their order.

    Args:
        hosts: Hosts that may get workers.
        crew: Workers that run; those that are to leave hold their slot until they have ended.
        most: Largest number of workers that are meant to go on.
    """
    taken = Counter(member.host for member in crew)
    room = most - sum(member.is_staffed for member in crew)
    counts = {}
    for host in hosts:
        count = int(max(0, min(host.slots - taken[host.name], room)))
        if count:
            counts[host.name] = count
            room -= count
    return counts


def leavers(slots: dict[str, int], crew: Sequence[CrewMember], most: float) -> list[CrewMember]:
    """Return the workers that have no slot any more: the youngest of each host.

    Args:
        slots: Slots of each host; none for one that was removed.
        crew: Workers that run.
        most: Largest number of workers that are meant to go on.
    """
    leaving = []
    staffed = sorted((m for m in crew if m.is_staffed), key=lambda member: member.number)
    kept: Counter[str] = Counter()
    for member in staffed:
        if kept[member.host] >= slots.get(member.host, 0) or sum(kept.values()) >= most:
            leaving.append(member)
        else:
            kept[member.host] += 1
    return leaving
