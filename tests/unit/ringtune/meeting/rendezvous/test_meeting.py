# SPDX-License-Identifier: Apache-2.0
"""The whole meeting, its ranks being threads of this process: real sockets, an ordinary memfd for the shared memory."""

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ringtune.errors import CollectiveTimeout, ConfigError, PeerLostError, RingtuneError
from ringtune.meeting.rendezvous import Agreement, Offer, Place, coordinator, member, open_meeting
from ringtune.meeting.rendezvous.address import Address, bound_address, listen

KEY = b"k" * 32
LIMIT_S = 60.0
Outcome = Agreement | RingtuneError


def make_segment(ranks: int) -> int:
    """Return memory as large as the ranks are many, so that it can be told apart."""
    descriptor = os.memfd_create("segment")
    os.ftruncate(descriptor, ranks)
    return descriptor


def no_segment(ranks: int) -> int:
    """Fail as the engine does for want of memory, where ranks would share it."""
    if ranks > 1:
        raise ConfigError(f"{ranks} MiB are needed, 0 are there")
    return make_segment(ranks)


@dataclass
class Ranks:
    """A world whose ranks meet in threads; each is on the host that it is told.

    Attributes:
        hosts: A name per rank.
        transport: `RINGTUNE_TRANSPORT` of rank 0.
        scheme: The scheme by which rank 0 is met.
        segments: Makes each rank's shared memory.
        failures: Errors of a rank's engine in place of a start.
        limits_s: A rank's limit, where it is not `LIMIT_S`.
        late: Ranks that conclude only after rank 0 has left.
    """

    hosts: str
    transport: str = "auto"
    scheme: str = "tcp"
    segments: Callable[[int], int] = make_segment
    failures: dict[int, RingtuneError] = field(default_factory=dict)
    offers: dict[int, Offer] = field(default_factory=dict)
    absent: tuple[int, ...] = ()
    limit_s: float = LIMIT_S
    late: tuple[int, ...] = ()
    has_left: threading.Event = field(default_factory=threading.Event)

    def meet(self, monkeypatch: pytest.MonkeyPatch) -> list[Outcome]:
        """Return each rank's result, in their order."""
        names = threading.local()
        for module in (coordinator, member):
            monkeypatch.setattr(module, "host_identity", lambda: names.own)
        listener = listen(Address.fresh_unix() if self.scheme == "unix" else Address("tcp", "127.0.0.1"))
        place = Place(0, len(self.hosts), 0, "test", bound_address(listener), KEY, listener)
        outcomes: dict[int, Outcome] = {}

        def run(rank: int) -> None:
            names.own = self.hosts[rank]
            own = place if rank == 0 else Place(rank, len(self.hosts), 0, "test", place.address, KEY)
            outcomes[rank] = self._meet_as(own)

        threads = [
            threading.Thread(target=run, args=(rank,)) for rank in range(len(self.hosts)) if rank not in self.absent
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [outcomes[rank] for rank in sorted(outcomes)]

    def _meet_as(self, place: Place) -> Outcome:
        offer = self.offers.get(place.rank, Offer({}, {}, self.transport, {"cores": place.rank}))
        meeting = open_meeting(place, offer, self.limit_s, self.segments)
        agreement: Agreement | None = None
        try:
            agreement = meeting.agree()
            if place.rank in self.late:
                assert self.has_left.wait(LIMIT_S)
            meeting.conclude(self.failures.get(place.rank))
        except RingtuneError as error:
            if agreement is not None:
                agreement.close()
            return error
        finally:
            meeting.close()
            if place.rank == 0:
                self.has_left.set()
        return agreement


def agreements(outcomes: list[Outcome]) -> list[Agreement]:
    """Return the outcomes, which must all be agreements."""
    found = [outcome for outcome in outcomes if isinstance(outcome, Agreement)]
    assert len(found) == len(outcomes), outcomes
    return found


def descriptors() -> int:
    """Return the number of open descriptors of this process."""
    return len(list(Path("/proc/self/fd").iterdir()))


def check_sockets(world: list[Agreement], hosts: tuple[int, ...], *, carries_data: bool) -> None:
    """Every pair that must be connected is, with each other, and no other is."""
    size = len(world)
    for low in range(size):
        for high in range(low + 1, size):
            is_control = low == 0 and hosts[high] != hosts[0]
            for ends, is_expected in (
                ((world[low].control_fds[high], world[high].control_fds[low]), is_control),
                ((world[low].data_fds[high], world[high].data_fds[low]) if carries_data else (-1, -1), carries_data),
            ):
                assert is_expected == (min(ends) >= 0)
                if is_expected:
                    os.write(ends[0], b"down")
                    os.set_blocking(ends[1], True)
                    assert b"down" == os.read(ends[1], 10)
    assert all(carries_data or () == agreement.data_fds for agreement in world)


@pytest.mark.parametrize("scheme", ["unix", "tcp"])
@pytest.mark.parametrize("hosts", ["aa", "aaaa"])
def test_ranks_of_one_host_share_memory_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, scheme: str, hosts: str
) -> None:
    """One segment for all, a pidfd of each, no connection between them."""
    before = descriptors()

    world = agreements(Ranks(hosts, scheme=scheme).meet(monkeypatch))

    assert {(0,) * len(hosts)} == {agreement.hosts for agreement in world}
    assert {os.fstat(agreement.segment_fd).st_ino for agreement in world} == {os.fstat(world[0].segment_fd).st_ino}
    assert len(hosts) == os.fstat(world[0].segment_fd).st_size
    assert all(len(hosts) == len(agreement.pidfds) and min(agreement.pidfds) >= 0 for agreement in world)
    assert {((), ())} == {(agreement.control_fds, agreement.data_fds) for agreement in world}
    for agreement in world:
        agreement.close()
    assert before == descriptors()


@pytest.mark.parametrize(
    ("names", "transport", "hosts"),
    [
        ("ab", "auto", (0, 1)),
        ("aabb", "auto", (0, 0, 1, 1)),
        ("abab", "auto", (0, 1, 0, 1)),
        ("abbcc", "auto", (0, 1, 1, 2, 2)),
        ("aaa", "tcp", (0, 1, 2)),
        ("aabb", "mpi", (0, 0, 1, 1)),
    ],
)
def test_ranks_of_several_hosts_are_connected(
    monkeypatch: pytest.MonkeyPatch, names: str, transport: str, hosts: tuple[int, ...]
) -> None:
    """Control to rank 0, data between all unless an MPI carries it, and memory shared on each host."""
    before = descriptors()

    world = agreements(Ranks(names, transport).meet(monkeypatch))

    assert {hosts} == {agreement.hosts for agreement in world}
    check_sockets(world, hosts, carries_data=transport != "mpi")
    for rank, agreement in enumerate(world):
        local = [other for other in range(len(hosts)) if hosts[other] == hosts[rank]]
        assert len(local) == os.fstat(agreement.segment_fd).st_size
        assert local == [other for other, pidfd in enumerate(agreement.pidfds) if pidfd >= 0]
    for agreement in world:
        agreement.close()
    assert before == descriptors()


def test_rank_0_knows_what_every_machine_declares(monkeypatch: pytest.MonkeyPatch) -> None:
    """One entry per machine, told by its lowest rank, however the ranks are kept apart."""
    world = agreements(Ranks("aba", "tcp").meet(monkeypatch))

    facts = [{"cores": 0, "link_bits_per_s": None}, {"cores": 1, "link_bits_per_s": None}]
    assert [facts, [], []] == [list(agreement.host_facts) for agreement in world]
    for agreement in world:
        agreement.close()


@pytest.mark.parametrize("names", ["aaa", "abb"])
def test_ranks_without_shared_memory_use_tcp(monkeypatch: pytest.MonkeyPatch, names: str) -> None:
    """The slower way is announced; hosts that have memory keep it."""
    before = descriptors()

    world = agreements(Ranks(names, segments=no_segment).meet(monkeypatch))

    assert {(0, 1, 2)} == {agreement.hosts for agreement in world}
    check_sockets(world, (0, 1, 2), carries_data=True)
    (note,) = world[0].notes
    assert "MiB are needed" in note
    assert "slower" in note
    for agreement in world:
        agreement.close()
    assert before == descriptors()


@pytest.mark.parametrize(
    ("ranks", "words"),
    [
        (Ranks("aaa", "shm", segments=no_segment), "ranks [0, 1, 2] have no shared memory: 3 MiB are needed"),
        (Ranks("ab", "shm"), "RINGTUNE_TRANSPORT=shm"),
        (Ranks("ab", failures={1: ConfigError("no engine")}), "rank 1: no engine"),
        (Ranks("aab", failures={0: ConfigError("no engine")}), "no engine"),
        (Ranks("aab", failures={0: ConfigError("no engine")}, late=(1, 2)), "no engine"),
        (Ranks("aa", failures={0: ConfigError("no engine")}, late=(1,), scheme="unix"), "no engine"),
        (Ranks("ab", offers={1: Offer({"RINGTUNE_CYCLE_MS": 2}, {})}), "rank 1 sets RINGTUNE_CYCLE_MS=2"),
        (Ranks("ab", offers={0: Offer({}, {}, failure=ConfigError("bad value"))}), "bad value"),
        (Ranks("aab", offers={2: Offer({}, {}, failure=ConfigError("bad value"))}), "bad value"),
    ],
)
def test_what_is_wrong_on_one_rank_is_everybodys_error(
    monkeypatch: pytest.MonkeyPatch, ranks: Ranks, words: str
) -> None:
    """All hear the same, soon, and no descriptor is left open."""
    before = descriptors()

    outcomes = ranks.meet(monkeypatch)

    for outcome in outcomes:
        assert isinstance(outcome, ConfigError)
        assert words.removeprefix("rank 1: ") in str(outcome)
    assert before == descriptors()


def test_a_missing_rank_is_named_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank 0 names the missing rank; the others say that it waited."""
    first, second = Ranks("abc", absent=(2,), limit_s=3.0).meet(monkeypatch)

    assert isinstance(first, CollectiveTimeout)
    assert "ranks [2] of 3 did not join" in str(first)
    assert isinstance(second, CollectiveTimeout)


def test_a_rank_that_ends_while_hosts_connect_is_a_lost_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The waiting ranks hear of the end at once, without waiting for the deadline."""

    def end(_rank_count: int) -> int:
        raise SystemExit

    calls: list[Any] = []

    def segments(ranks: int) -> int:
        calls.append(ranks)
        return make_segment(ranks) if len(calls) < 3 else end(ranks)

    def quiet(_arguments: threading.ExceptHookArgs) -> None:
        return

    monkeypatch.setattr(threading, "excepthook", quiet)

    outcomes = Ranks("abc", segments=segments).meet(monkeypatch)

    assert 2 == len(outcomes)
    assert all(isinstance(outcome, PeerLostError) for outcome in outcomes), outcomes
