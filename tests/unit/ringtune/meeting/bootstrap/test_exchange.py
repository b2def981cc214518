# SPDX-License-Identifier: Apache-2.0
"""Agreement of connected ranks on their meeting place."""

import threading
from collections.abc import Sequence

import pytest

from ringtune.errors import ConfigError, RingtuneError
from ringtune.meeting.bootstrap.exchange import arrange
from ringtune.meeting.rendezvous import site as site_module
from ringtune.meeting.rendezvous.place import Place


class Room:
    """A room in which some ranks, being threads, hear each other."""

    def __init__(self, size: int) -> None:
        self.texts = [""] * size
        self.answer = ""
        self.barrier = threading.Barrier(size, timeout=60)


class Voice:
    """Implements `RankChannel` for one rank in a room."""

    def __init__(self, room: Room, rank: int) -> None:
        self._room = room
        self._rank = rank

    def gather(self, text: str) -> Sequence[str]:
        """See `RankChannel`."""
        self._room.texts[self._rank] = text
        self._room.barrier.wait()
        return self._room.texts

    def spread(self, text: str) -> str:
        """See `RankChannel`."""
        if self._rank == 0:
            self._room.answer = text
        self._room.barrier.wait()
        return self._room.answer


def arrange_all(
    monkeypatch: pytest.MonkeyPatch, sites: Sequence[tuple[str, str, list[str]]]
) -> list[Place | RingtuneError]:
    """Return each rank's result; a site is host, network namespace and networks of a rank."""
    own, room = threading.local(), Room(len(sites))
    monkeypatch.setattr(site_module, "host_identity", lambda: own.site[0])
    monkeypatch.setattr(site_module, "network_identity", lambda: own.site[1])
    monkeypatch.setattr(site_module, "own_networks", lambda: own.site[2])
    results: dict[int, Place | RingtuneError] = {}

    def run(rank: int) -> None:
        own.site = sites[rank]
        try:
            results[rank] = arrange(Place(rank, len(sites), 0, "test"), Voice(room, rank))
        except RingtuneError as error:
            results[rank] = error

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(len(sites))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [results[rank] for rank in range(len(sites))]


def places(results: list[Place | RingtuneError]) -> list[Place]:
    """Return the results, which must all be places, once rank 0's listener is closed."""
    found = [result for result in results if isinstance(result, Place)]
    assert len(found) == len(results), results
    assert found[0].listener is not None
    assert all(place.listener is None for place in found[1:])
    found[0].listener.close()
    return found


@pytest.mark.parametrize(
    ("sites", "scheme", "host"),
    [
        ([("h", "n", []), ("h", "n", [])], "unix", None),
        ([("h", "n", []), ("i", "n", [])], "tcp", "127.0.0.1"),
        ([("h", "n", ["127.0.0.5/8"]), ("i", "m", ["127.0.0.6/8"])], "tcp", "127.0.0.5"),
        ([("h", "n", ["127.0.0.5/8"]), ("h", "n", ["127.0.0.5/8"]), ("i", "m", ["127.0.0.6/8"])], "tcp", "127.0.0.5"),
    ],
)
def test_rank_0_listens_where_all_can_reach_it(
    monkeypatch: pytest.MonkeyPatch, sites: list[tuple[str, str, list[str]]], scheme: str, host: str | None
) -> None:
    """On one host a socket of that host; else on the network that the hosts share; all have one fresh key."""
    found = places(arrange_all(monkeypatch, sites))

    assert 1 == len({(place.address, place.job_key) for place in found})
    address = found[0].require_address()
    assert scheme == address.scheme
    assert host in {None, address.host}
    assert 32 == len(found[0].job_key)


def test_every_arrangement_has_its_own_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key does not open another init."""
    site = ("h", "n", ["10.0.0.1/24"])

    keys = {places(arrange_all(monkeypatch, [site, site]))[0].job_key for _ in range(2)}

    assert 2 == len(keys)


def test_where_rank_0_cannot_listen_all_hear_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """No rank waits for an address that does not come."""
    monkeypatch.setattr(site_module, "meeting_address", lambda _own, _others: "192.0.2.9")

    results = arrange_all(monkeypatch, [("h", "n", []), ("i", "m", [])])

    assert all(isinstance(result, ConfigError) and "192.0.2.9" in str(result) for result in results), results
