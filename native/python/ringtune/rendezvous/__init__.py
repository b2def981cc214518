# SPDX-License-Identifier: Apache-2.0
"""The meeting of the ranks at init: who is there, whose settings hold, and the shared memory for each.

Rank 0 listens on an abstract socket, which leaves no file; the others connect. Both ends prove that they hold the
job key; then each rank says what it is and what was set on it, rank 0 creates the segment and hands it out with a
pidfd per rank, and all start their engines. Every socket is closed before training begins.
"""

import os
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from ringtune.errors import RingtuneError

from .coordinator import Coordinator
from .member import Member
from .place import Agreement, Offer, Place

__all__ = ["Agreement", "Meeting", "Offer", "Place", "open_meeting"]


class Meeting(Protocol):
    """One rank's side of the meeting: `agree()`, then `conclude()`; `close()` in any case."""

    def agree(self) -> Agreement:
        """Return what all ranks hold; raise the first failure of any rank."""

    def conclude(self, failure: RingtuneError | None) -> None:
        """Say whether this rank's engine runs, and return when all do; raise the first failure of any rank."""

    def close(self) -> None:
        """Close every socket; idempotent."""


class _Alone:
    """The meeting in a world of one."""

    def __init__(self, offer: Offer, create_segment: Callable[[int], int]) -> None:
        self._given: Mapping[str, Any] = offer.given
        self._failure = offer.failure
        self._create_segment = create_segment

    def agree(self) -> Agreement:
        if self._failure is not None:
            raise self._failure
        pid = os.getpid()
        return Agreement(self._given, self._create_segment(1), (os.pidfd_open(pid),), (pid,))

    def conclude(self, failure: RingtuneError | None) -> None:
        if failure is not None:
            raise failure

    def close(self) -> None:
        """Nothing is open."""


def open_meeting(place: Place, offer: Offer, limit_s: float, create_segment: Callable[[int], int]) -> Meeting:
    """Return this rank's side of the meeting.

    Args:
        place: This rank's place.
        offer: What it brings.
        limit_s: How long the meeting may take.
        create_segment: Makes the shared memory for a world size and returns its descriptor; rank 0 calls it.

    Raises:
        ConfigError: If rank 0 cannot listen.
    """
    if place.world_size == 1:
        return _Alone(offer, create_segment)
    if place.rank == 0:
        return Coordinator(place, offer, limit_s, create_segment)
    return Member(place, offer, limit_s)
