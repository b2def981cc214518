# SPDX-License-Identifier: Apache-2.0
"""Exchange at rank 0's desk, ranks being threads: admitted ranks, answers, and the ranks that hear of a failure."""

import hmac
import json
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pytest

from ringtune.errors import CollectiveTimeout, ConfigError, PeerLostError, RingtuneError
from ringtune.meeting.bootstrap import sealed_exchange
from ringtune.meeting.bootstrap.munge import SealError
from ringtune.meeting.bootstrap.sealed_exchange import Desk, KernelSeal, SealedExchange
from ringtune.meeting.rendezvous import acceptor
from ringtune.meeting.rendezvous.address import Address, connect
from ringtune.meeting.rendezvous.channel import Channel, ChannelError, Deadline
from ringtune.meeting.rendezvous.place import Place
from tests.integration.ports import free_port
from tests.waiting import wait_until

LIMIT_S = 60.0
Outcome = str | RingtuneError


@dataclass(frozen=True)
class UserSeal:
    """A user's seal: a keyed digest, as munge's credentials are for a user; it opens each of them once."""

    user: str
    opened: set[str] = field(default_factory=set)

    def seal(self, text: str) -> str:
        """See `Seal`."""
        return json.dumps([text, hmac.new(self.user.encode(), text.encode(), "sha256").hexdigest()])

    def open(self, sealed: str) -> str:
        """See `Seal`."""
        text, _ = json.loads(sealed)
        if sealed != self.seal(text):
            raise SealError("another user has made it")
        if sealed in self.opened:
            raise SealError("it was opened before")
        self.opened.add(sealed)
        return str(text)


def tcp_desk(user: str = "ada") -> Desk:
    """Return a desk on loopback."""
    return Desk(Address("tcp", "127.0.0.1", free_port()), "job 7 step 0", UserSeal(user))


def take_part(desk: Desk, rank: int, size: int, limit_s: float = LIMIT_S) -> Outcome:
    """Return the answer that a rank hears; rank 0's own texts, joined."""
    exchange = SealedExchange(Place(rank, size, 0, "test"), desk, limit_s)
    try:
        texts = exchange.gather(f"text {rank}")
        return exchange.spread(" + ".join(texts))
    except RingtuneError as error:
        return error
    finally:
        exchange.close()


def start(outcomes: dict[int, Outcome], rank: int, part: Callable[[], Outcome]) -> threading.Thread:
    """Start a rank's part in a thread; its outcome is kept."""
    thread = threading.Thread(target=lambda: outcomes.update({rank: part()}))
    thread.start()
    return thread


def meet(desks: Sequence[Desk], limit_s: float = LIMIT_S) -> list[Outcome]:
    """Let all ranks meet, each with a desk of its own, and return their outcomes."""
    outcomes: dict[int, Outcome] = {}
    size = len(desks)
    threads = [
        start(outcomes, rank, lambda rank=rank, desk=desk: take_part(desk, rank, size, limit_s))  # type: ignore[misc]
        for rank, desk in enumerate(desks)
    ]
    for thread in threads:
        thread.join()
    return [outcomes[rank] for rank in range(size)]


def caller(desk: Desk) -> Channel:
    """Return a connection to a desk, once it is there."""
    found: list[socket.socket] = []

    def is_there() -> bool:
        try:
            found.append(connect(desk.address, Deadline.after(1.0)))
        except OSError:
            return False
        return True

    wait_until(is_there)
    return Channel(found[0])


@pytest.mark.parametrize("is_local", [True, False])
def test_all_hear_rank_0s_answer(is_local: bool) -> None:
    """Rank 0 has every rank's text in their order, and every rank its answer."""
    desk = Desk(Address.fresh_unix(), "job", KernelSeal()) if is_local else tcp_desk()

    assert ["text 0 + text 1 + text 2 + text 3"] * 4 == meet([desk] * 4)


def test_a_stranger_is_told_nothing_and_disturbs_nobody() -> None:
    """Garbage, another user's request and a replayed one are dropped; the ranks meet all the same."""
    desk, outcomes = tcp_desk(), dict[int, Outcome]()
    host = start(outcomes, 0, lambda: take_part(desk, 0, 2))
    stranger = replace(desk, seal=UserSeal("eve"))
    right = {"rank": 1, "world_size": 2, "nonce": "0" * 64, "text": "x"}
    requests = [
        {"type": "request"},
        {"type": "request", "sealed": "[]"},
        {"type": "request", "sealed": desk.sealed({**right, "rank": 2})},
        {"type": "request", "sealed": desk.sealed({**right, "world_size": 3})},
        {"type": "request", "sealed": desk.sealed({**right, "nonce": "0"})},
        {"type": "request", "sealed": replace(desk, meeting="job 8 step 0").sealed(right)},
        {"type": "request", "sealed": stranger.sealed(right)},
    ]

    for request in requests:
        channel = caller(desk)
        channel.send(request)
        with pytest.raises(ChannelError, match="closed"):
            channel.receive(Deadline.after(LIMIT_S))
        channel.close()
    outcomes[1] = take_part(desk, 1, 2)
    host.join()

    assert {0: "text 0 + text 1", 1: "text 0 + text 1"} == outcomes


def test_a_silent_stranger_keeps_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """More of them than are held at once: the oldest go."""
    monkeypatch.setattr(acceptor, "MAX_UNPROVED", 3)
    monkeypatch.setattr(sealed_exchange, "REQUEST_LIMIT_S", 3600.0)
    desk, outcomes = tcp_desk(), dict[int, Outcome]()
    host = start(outcomes, 0, lambda: take_part(desk, 0, 2))
    silent = [caller(desk) for _ in range(8)]
    with pytest.raises(ChannelError, match="closed"):
        silent[0].receive(Deadline.after(LIMIT_S))

    outcomes[1] = take_part(desk, 1, 2)
    host.join()
    for channel in silent:
        channel.close()

    assert {0: "text 0 + text 1", 1: "text 0 + text 1"} == outcomes


def test_another_user_in_rank_0s_place_is_found_out() -> None:
    """An answer that this user has not made is no answer."""
    desk = tcp_desk()

    class Impostor(UserSeal):
        """Opens everything, and can seal as Eve alone."""

        def open(self, sealed: str) -> str:
            """See `Seal`."""
            return str(json.loads(sealed)[0])

    outcomes: dict[int, Outcome] = {}
    thread = start(outcomes, 0, lambda: take_part(replace(desk, seal=Impostor("eve")), 0, 2))
    heard = take_part(desk, 1, 2)
    thread.join()

    assert isinstance(heard, ConfigError)
    assert "another user has made it" in str(heard)


def test_an_answer_to_another_request_is_none() -> None:
    """A replayed answer, of the same user and meeting, is refused."""
    desk = tcp_desk()
    listener = socket.create_server(("127.0.0.1", desk.address.port))
    outcomes: dict[int, Outcome] = {}
    guest = start(outcomes, 1, lambda: take_part(desk, 1, 2))

    with listener:
        connection, _ = listener.accept()
        channel = Channel(connection)
        channel.receive(Deadline.after(LIMIT_S))
        channel.send({"type": "noted"})
        channel.send({"type": "answer", "sealed": desk.sealed({"answer": "old", "nonce": "0" * 64})})
        guest.join()
        channel.close()

    assert isinstance(outcomes[1], ConfigError)
    assert "answer to another request" in str(outcomes[1])


def test_a_missing_rank_is_named_to_all() -> None:
    """Rank 0 names it at the limit, with the refused connections; the ranks that are there hear the same."""
    desk, outcomes = tcp_desk(), dict[int, Outcome]()
    host = start(outcomes, 0, lambda: take_part(desk, 0, 3, 2.0))
    guest = start(outcomes, 1, lambda: take_part(desk, 1, 3, 2.0))
    channel = caller(desk)
    channel.send({"type": "request", "sealed": "garbage"})

    for thread in (host, guest):
        thread.join()
    channel.close()

    assert all(isinstance(outcome, CollectiveTimeout) for outcome in outcomes.values()), outcomes
    assert "ranks [2] of 3 did not come" in str(outcomes[1])
    assert "1 connection refused; the last: it is not JSON" in str(outcomes[0])


def test_without_rank_0_a_rank_says_where_it_waited() -> None:
    """The error has the address, and the reason of the last failed attempt."""
    desk = Desk(Address.fresh_unix(), "job", KernelSeal())

    heard = take_part(desk, 1, 2, 0.05)

    assert isinstance(heard, CollectiveTimeout)
    assert "nobody listens there" in str(heard)
    assert str(desk.address) in str(heard)


def request(desk: Desk, rank: int, size: int) -> Channel:
    """Return a connection on which a rank has brought its request."""
    channel = caller(desk)
    channel.send({"type": "request", "sealed": desk.sealed({"rank": rank, "world_size": size, "nonce": "0" * 64})})
    assert {"type": "noted"} == channel.receive(Deadline.after(LIMIT_S))
    return channel


def test_a_rank_that_ends_meanwhile_is_named() -> None:
    """No rank waits until the limit."""
    desk, outcomes = tcp_desk(), dict[int, Outcome]()
    host = start(outcomes, 0, lambda: take_part(desk, 0, 3))

    request(desk, 1, 3).close()
    host.join()

    assert isinstance(outcomes[0], PeerLostError)
    assert "rank 1 ended" in str(outcomes[0])


def test_two_processes_of_one_rank_end_the_meeting() -> None:
    """The first is told as well."""
    desk, outcomes = tcp_desk(), dict[int, Outcome]()
    host = start(outcomes, 0, lambda: take_part(desk, 0, 3))
    first = request(desk, 1, 3)
    second = caller(desk)
    second.send({"type": "request", "sealed": desk.sealed({"rank": 1, "world_size": 3, "nonce": "1" * 64})})

    failure = desk.opened(first.receive(Deadline.after(LIMIT_S)))
    host.join()
    for channel in (first, second):
        channel.close()

    assert isinstance(outcomes[0], ConfigError)
    assert "two processes came as rank 1" in failure["text"]
