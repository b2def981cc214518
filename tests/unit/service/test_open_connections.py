# SPDX-License-Identifier: Apache-2.0
"""Places among the connections: those kept, those given up, and those overdue."""

from dataclasses import dataclass, field

import pytest

from ringtune.service.open_connections import Awaited, ConnectionLimits, OpenConnections, Reason

LIMITS = ConnectionLimits(connections_max=16, head_s=10.0, idle_s=30.0, unread_s=60.0)
STRANGERS_MAX = 12
KNOWN_MAX = 15


@dataclass(eq=False)
class Link:
    """A connection that remembers why it was closed."""

    name: str = ""
    closed: list[Reason] = field(default_factory=list)

    def close_for(self, reason: Reason) -> None:
        """Be closed."""
        self.closed.append(reason)


class Clock:
    """Seconds that pass when a test says so."""

    now_s = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    """Return a clock that stands."""
    return Clock()


@pytest.fixture
def places(clock: Clock) -> OpenConnections:
    """Return sixteen places."""
    return OpenConnections(LIMITS, clock)


def admitted(
    places: OpenConnections, count: int, phase: Awaited = Awaited.HEAD, *, is_known: bool = False
) -> list[Link]:
    """Return so many new connections that wait for something."""
    links = [Link(str(number)) for number in range(count)]
    for link in links:
        places.admit(link)
        places.wait_for(link, phase)
        if is_known:
            assert places.recognise(link)
    return links


def closed_of(links: list[Link]) -> list[str]:
    """Return the names of those that were closed."""
    return [link.name for link in links if link.closed]


def test_the_oldest_without_a_head_goes_first(places: OpenConnections) -> None:
    """Before those that are idle, which came earlier, and those at work."""
    working, idle = admitted(places, 4, Awaited.WORK), admitted(places, 4, Awaited.IDLE)
    headless = admitted(places, STRANGERS_MAX - 8)

    newcomers = admitted(places, 2)

    assert ["0", "1"] == closed_of(headless)
    assert [] == closed_of(working) + closed_of(idle) + closed_of(newcomers)
    assert [Reason.FULL] == headless[0].closed
    assert STRANGERS_MAX == len(places) == places.strangers


def test_strangers_at_work_make_room_when_there_are_no_others(places: OpenConnections) -> None:
    """Slow bodies without a token keep no health check out."""
    working = admitted(places, STRANGERS_MAX, Awaited.WORK)

    admitted(places, 1)

    assert ["0"] == closed_of(working)


def test_strangers_never_take_the_places_of_the_known(places: OpenConnections) -> None:
    """However many come, those with a token stay, at work or idle."""
    known = admitted(places, 2, Awaited.IDLE, is_known=True) + admitted(places, 2, Awaited.WORK, is_known=True)

    admitted(places, 100)

    assert [] == closed_of(known)
    assert (4, STRANGERS_MAX) == (places.known, places.strangers)


def test_a_newcomer_replaces_a_known_connection_that_is_idle(places: OpenConnections) -> None:
    """The known never hold all places: there is one left for a health check."""
    known = admitted(places, KNOWN_MAX, Awaited.IDLE, is_known=True)
    admitted(places, 1, Awaited.WORK)

    newcomer = admitted(places, 1, Awaited.WORK)

    assert ["0"] == closed_of(known)
    assert [] == closed_of(newcomer)
    assert 16 == len(places)


def test_only_so_many_can_be_known(places: OpenConnections) -> None:
    """One more replaces one that is idle; while all are at work there is no place."""
    known = admitted(places, KNOWN_MAX, Awaited.WORK, is_known=True)
    (late,) = admitted(places, 1, Awaited.WORK)

    assert not places.recognise(late)
    places.wait_for(known[3], Awaited.IDLE)
    assert places.recognise(late)

    assert ["3"] == closed_of(known)
    assert KNOWN_MAX == places.known


def test_overdue_connections_are_closed(places: OpenConnections, clock: Clock) -> None:
    """A head, whose time does not begin anew with every byte; idleness; a reply that is not read; never work."""
    (head,), (idle,), (work,) = (admitted(places, 1, phase) for phase in (Awaited.HEAD, Awaited.IDLE, Awaited.WORK))
    (unread,) = admitted(places, 1, Awaited.WORK)
    places.note_unread(unread, is_unread=True)
    closed_at: dict[str, float] = {}
    for now_s in (9.0, 10.0, 29.0, 30.0, 59.0, 60.0, 1000.0):
        clock.now_s = now_s
        places.wait_for(head, Awaited.HEAD)
        places.close_overdue()
        for link in (head, idle, work, unread):
            for reason in link.closed:
                closed_at.setdefault(reason.value, now_s)

    assert {"head_timeout": 10.0, "idle": 30.0, "unread": 60.0} == closed_at
    assert (1, []) == (len(places), work.closed)


@pytest.mark.parametrize("is_known", [False, True], ids=["stranger", "known"])
def test_another_request_begins_the_time_anew(places: OpenConnections, clock: Clock, *, is_known: bool) -> None:
    """An idle connection on which something was answered, or refused, stays as long again."""
    (link,) = admitted(places, 1, Awaited.IDLE, is_known=is_known)
    clock.now_s = 29.0
    places.wait_for(link, Awaited.IDLE)
    clock.now_s = 58.0
    places.close_overdue()

    assert not link.closed


def test_a_connection_that_ended_leaves_no_trace(places: OpenConnections, clock: Clock) -> None:
    """A connection's second end, or a late report about it, has no effect."""
    (link,) = admitted(places, 1, Awaited.WORK, is_known=True)
    places.note_unread(link, is_unread=True)
    places.remove(link)
    places.remove(link)
    places.wait_for(link, Awaited.IDLE)
    places.note_unread(link, is_unread=True)

    assert places.recognise(link)
    clock.now_s = 1000.0
    places.close_overdue()
    assert (0, 0, 0, []) == (len(places), places.known, places.strangers, link.closed)
