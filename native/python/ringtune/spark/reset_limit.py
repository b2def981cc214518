# SPDX-License-Identifier: Apache-2.0
"""A roster that allows a number of resets: meetings after the first. Afterwards no worker is taken in or replaced."""

from collections.abc import Sequence

from ringtune.meeting.rendezvous.roster import Gathering, Roster, Worker


class LimitedRoster:
    """Lets another roster decide as long as a meeting is allowed. See `Roster`.

    Attributes:
        is_exhausted: Whether a meeting was due that is not allowed.
    """

    def __init__(self, roster: Roster, reset_limit: int | None) -> None:
        """Take the roster.

        Args:
            roster: Decides which workers meet.
            reset_limit: Number of resets; None for any.
        """
        self._roster = roster
        self._left = None if reset_limit is None else reset_limit + 1  # meetings, the first one too
        self.is_exhausted = False

    @property
    def _may_meet(self) -> bool:
        return self._left is None or self._left > 0

    def refusal(self, worker: Worker, others: Sequence[Worker], /) -> str | None:
        """See `Roster`."""
        return self._roster.refusal(worker, others)

    def meeting(self, gathering: Gathering) -> Sequence[Worker] | None:
        """Begin no meeting over the limit; the job is over once one is due that would train."""
        chosen = self._roster.meeting(gathering)
        if chosen is None or self._may_meet:
            return chosen
        self.is_exhausted = True
        return None

    def describe_missing(self, present: Sequence[Worker]) -> str:
        """See `Roster`."""
        return self._roster.describe_missing(present)

    def wants_update(self, members: Sequence[Worker], waiting: Sequence[Worker], /) -> bool:
        """Interrupt no world for newcomers that it may not take in."""
        return self._may_meet and self._roster.wants_update(members, waiting)

    def met(self, number: int, ranks: Sequence[Worker], /) -> None:
        """Count the meeting."""
        self._left = None if self._left is None else self._left - 1
        self._roster.met(number, ranks)

    def ended(self, worker: Worker, text: str, *, is_done: bool) -> None:
        """See `Roster`."""
        self._roster.ended(worker, text, is_done=is_done)

    def next_look_s(self) -> float:
        """See `Roster`."""
        return self._roster.next_look_s()
