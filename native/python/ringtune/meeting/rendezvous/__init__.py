# SPDX-License-Identifier: Apache-2.0
"""The meeting of the ranks at init: members, the settings that hold, and each rank's connections to the others.

Rank 0 listens and the others call it, over an abstract unix socket or TCP. Both ends prove that they hold the job key;
then each rank sends its host and its settings. Rank 0 plans which ranks share a host; on each host the lowest rank
makes the shared memory and hands it to the others; between hosts the ranks connect to each other. All start their
engines, which take the connections over; every other socket is closed before training begins.
"""

import os
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from ringtune.errors import RingtuneError
from ringtune.system.standard_streams import above_standard_streams

from .coordinator import Coordinator
from .layout import Layout
from .member import Member
from .place import Agreement, Offer, Place

__all__ = ["Agreement", "Layout", "Meeting", "Offer", "Place", "open_meeting"]


class Meeting(Protocol):
    """One rank's side of the meeting: `agree()`, then `conclude()`; `close()` in any case."""

    def agree(self) -> Agreement:
        """Return the agreement that all ranks hold; raise the first failure of any rank."""

    def conclude(self, failure: RingtuneError | None) -> None:
        """Say whether this rank's engine runs, and return when all do; raise the first failure of any rank."""

    def close(self) -> None:
        """Close every socket; idempotent."""


class _Alone:
    """The meeting in a world of one."""

    def __init__(self, offer: Offer, create_segment: Callable[[int], int]) -> None:
        self._given: Mapping[str, Any] = offer.given
        self._facts = offer.facts
        self._failure = offer.failure
        self._create_segment = create_segment

    def agree(self) -> Agreement:
        if self._failure is not None:
            raise self._failure
        pid = os.getpid()
        facts = ({**self._facts, "link_bits_per_s": None},)
        pidfd = above_standard_streams(os.pidfd_open(pid))
        return Agreement(self._given, (0,), self._create_segment(1), (pidfd,), (pid,), host_facts=facts)

    def conclude(self, failure: RingtuneError | None) -> None:
        if failure is not None:
            raise failure

    def close(self) -> None:
        """Return at once: this meeting holds no descriptor."""


def open_meeting(place: Place, offer: Offer, limit_s: float, create_segment: Callable[[int], int]) -> Meeting:
    """Return this rank's side of the meeting.

    Args:
        place: This rank's place; its listener, where it has one, is the meeting's from now on.
        offer: Offer that it brings.
        limit_s: Time limit of the meeting, seconds.
        create_segment: Makes the shared memory for a number of ranks and returns its descriptor; raises `ConfigError`
            where it cannot be had. The lowest rank of each host calls it.

    Raises:
        ConfigError: If rank 0 cannot listen.
    """
    if place.world_size == 1:
        return _Alone(offer, create_segment)
    role = Coordinator if place.rank == 0 else Member
    return role(place, offer, limit_s, create_segment)
