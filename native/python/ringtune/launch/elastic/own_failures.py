# SPDX-License-Identifier: Apache-2.0
"""Failures of a program by its own doing that no newer commit separates. Pure.

One worker that fails by itself may have a bad host. A program that fails by itself wherever it gets to is at fault: a
worker goes, the next one takes its rank, fails at the same place, and so on, while the launcher starts others.
"""

from collections.abc import Sequence

from ringtune.meeting.rendezvous.progress import Progress

from .crew import CrewMember


class OwnFailures:
    """Counts failures since the last commit that made progress. Losses by signals or with a host are none."""

    def __init__(self) -> None:
        self._members: list[CrewMember] = []
        self._place: Progress | None = None  # of the latest failure that is counted; None while it is not known
        self._needed = 0
        self._silent: list[tuple[CrewMember, int]] = []  # since the latest meeting; its survivors know the place

    def __len__(self) -> int:
        """Return the number of failures at the present place."""
        return len(self._members)

    @property
    def members(self) -> Sequence[CrewMember]:
        """The workers that have failed, in the order of their ends."""
        return tuple(self._members)

    @property
    def are_enough(self) -> bool:
        """True if as many workers have failed as the world had at the first of them, or all workers of one world."""
        if not self._members:
            return False
        latest = self._members[-1]
        of_its_world = sum(member.meeting == latest.meeting for member in self._members)
        return len(self._members) >= self._needed or 0 < latest.world_size <= of_its_world

    def note(self, member: CrewMember, world_size: int, *, has_survivors: bool) -> None:
        """Take a worker that has ended by its own doing.

        Args:
            member: The worker.
            world_size: Number of workers of its world.
            has_survivors: Whether others will tell the place at the next meeting, if the worker has not told it.
        """
        if member.failure or not has_survivors:
            self._count(member, member.progress if member.failure else None, world_size)
        else:
            self._silent.append((member, world_size))

    def note_survivors(self, places: Sequence[Progress | None]) -> None:
        """Take a meeting: forget the failures before a newer commit, and count those whose place was not known.

        Args:
            places: Places that the survivors have told; empty at a meeting without survivors. Workers that tell none
                have no state, so that they go on from where they are.
        """
        silent, self._silent = self._silent, []
        if places and not any(places):
            self._members.clear()
            return
        for place in filter(None, places):
            if self._place is None or place.is_beyond(self._place):
                self._members = [] if self._place is not None else self._members
                self._place = place
        for member, world_size in silent:
            self._count(member, None, world_size)

    def _count(self, member: CrewMember, place: Progress | None, world_size: int) -> None:
        """Count a failure, as the first one if it is beyond those before."""
        is_beyond = place is not None and self._place is not None and place.is_beyond(self._place)
        if not self._members or is_beyond:
            self._members, self._needed = [], world_size
            self._place = place or self._place
        self._members.append(member)
