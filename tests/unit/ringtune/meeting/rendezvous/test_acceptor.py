# SPDX-License-Identifier: Apache-2.0
"""Admission of ranks, and the cost of a flood of strangers."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace

import pytest

from ringtune.errors import CollectiveTimeout, ConfigError, PeerLostError
from ringtune.meeting.rendezvous import acceptor as acceptor_module
from ringtune.meeting.rendezvous.acceptor import MAX_UNPROVED
from ringtune.meeting.rendezvous.address import Address, bound_address, listen
from ringtune.meeting.rendezvous.admission import GREETING_LIMIT_S, Caller, acceptor_of_members
from ringtune.meeting.rendezvous.channel import Channel, Deadline, encode_frame
from ringtune.meeting.rendezvous.connector import Destination, open_channel
from ringtune.meeting.rendezvous.proof import PROTOCOL_VERSION, Membership, new_nonce
from ringtune.system.event_loop import EventLoop
from tests.waiting import wait_until

KEY = b"k" * 32


class OpenAcceptor:
    """An acceptor of rank 0 in generation 3, served by a thread of its own."""

    def __init__(self, address: Address) -> None:
        self.loop = EventLoop()
        self.admitted: list[Caller] = []
        listener = listen(address)
        self.address = bound_address(listener)
        membership = Membership(0, 3, KEY)
        self.acceptor = acceptor_of_members(self.loop, listener, membership, ("meeting", "data"), self.admitted.append)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while not self._is_over.is_set():
            self.loop.turn(0.02)

    def close(self) -> None:
        """End the thread and close everything."""
        self._is_over.set()
        self._thread.join()
        self.acceptor.close()
        self.loop.close()
        for caller in self.admitted:
            caller.channel.close()


@pytest.fixture(params=["unix", "tcp"])
def open_acceptor(request: pytest.FixtureRequest) -> Iterator[OpenAcceptor]:
    """An acceptor over either kind of socket."""
    opened = OpenAcceptor(Address.fresh_unix() if request.param == "unix" else Address("tcp", "127.0.0.1"))
    yield opened
    opened.close()


def call(
    acceptor: OpenAcceptor, *, purpose: str = "meeting", generation: int = 3, key: bytes = KEY, limit_s: float = 60
) -> None:
    """Call the acceptor as rank 2 and hang up."""
    deadline = Deadline.after(limit_s)
    open_channel(
        Destination(acceptor.address, 0, purpose), Membership(2, generation, key), {"word": "hi"}, deadline
    ).close()


def test_who_holds_the_key_is_let_in_with_what_it_says(open_acceptor: OpenAcceptor) -> None:
    """Rank, purpose and message reach whoever admits."""
    call(open_acceptor, purpose="data")

    wait_until(lambda: open_acceptor.admitted)
    (caller,) = open_acceptor.admitted
    assert (2, "data", 3, "hi") == (caller.rank, caller.purpose, caller.generation, caller.join["word"])


def test_another_key_is_an_error_for_the_caller(open_acceptor: OpenAcceptor) -> None:
    """The acceptor proves itself first, so that the caller detects the difference."""
    with pytest.raises(ConfigError, match="different job keys"):
        call(open_acceptor, key=b"x" * 32)

    assert [] == open_acceptor.admitted


def test_who_has_initialised_less_often_is_told(open_acceptor: OpenAcceptor) -> None:
    """A rank that initialised less often cannot catch up by waiting."""
    with pytest.raises(ConfigError, match="equally often"):
        call(open_acceptor, generation=2)


def test_who_has_initialised_more_often_waits(open_acceptor: OpenAcceptor) -> None:
    """The acceptor's rank may still come to that point; until then no caller is let in."""
    with pytest.raises(CollectiveTimeout, match="3th time"):
        call(open_acceptor, generation=4, limit_s=3)

    assert [] == open_acceptor.admitted


def test_another_purpose_is_not_served(open_acceptor: OpenAcceptor) -> None:
    """A data connection cannot be made at an acceptor for something else."""
    with pytest.raises(CollectiveTimeout, match="dropped the connection"):
        call(open_acceptor, purpose="book", limit_s=3)


def test_an_answer_for_another_rank_does_not_convince(open_acceptor: OpenAcceptor) -> None:
    """A rank that calls rank 1 is not taken in by rank 0's proof."""
    with pytest.raises(ConfigError, match="is not rank 1"):
        open_channel(Destination(open_acceptor.address, 1, "data"), Membership(2, 3, KEY), {}, Deadline.after(60))


def test_nobody_there_is_waited_for() -> None:
    """An acceptor may be yet to come."""
    with listen(Address("tcp", "127.0.0.1")) as listener:
        address = bound_address(listener)

    with pytest.raises(CollectiveTimeout, match=f"nobody listens on {address}"):
        open_channel(Destination(address, 0, "data"), Membership(2, 0, KEY), {}, Deadline.after(0.1))


def test_an_abstract_socket_that_is_not_found_may_be_in_another_namespace() -> None:
    """A rank in another container has other abstract sockets; the error says which address works there."""
    with pytest.raises(CollectiveTimeout, match=r"share one network namespace .* tcp://HOST:PORT"):
        open_channel(Destination(Address.fresh_unix(), 0, "data"), Membership(2, 0, KEY), {}, Deadline.after(0.1))


def test_a_door_that_was_there_and_is_gone_is_a_lost_rank() -> None:
    """A rank that was connected to the acceptor does not wait until the deadline."""
    with listen(Address.fresh_unix()) as listener:
        address = bound_address(listener)

        def vanish() -> None:
            listener.setblocking(True)
            connection, _ = listener.accept()
            listener.close()
            connection.close()

        thread = threading.Thread(target=vanish)
        thread.start()
        with pytest.raises(PeerLostError, match="rank 0 ended"):
            open_channel(Destination(address, 0, "data"), Membership(2, 0, KEY), {}, Deadline.after(60))
        thread.join()


GARBAGE = (
    b"GET / HTTP/1.1\r\n\r\n",
    b'\x00\x00\x00\x10{"type":"hello"}',
    encode_frame({"type": "join", "proof": "0" * 64}),
    encode_frame({"type": "hello", "protocol": 1, "purpose": "data", "generation": 3, "rank": 1, "nonce": new_nonce()}),
    encode_frame(
        {"type": "hello", "protocol": 2, "purpose": "data", "generation": 3, "rank": -1, "nonce": new_nonce()}
    ),
    encode_frame({"type": "hello", "protocol": 2, "purpose": [], "generation": 3, "rank": 1, "nonce": new_nonce()}),
)


def be_patient(opened: OpenAcceptor) -> None:
    """Have an acceptor wait for long for a caller's next bytes."""
    opened.acceptor._terms = replace(opened.acceptor._terms, limit_s=3600.0)


def stranger_at(address: Address) -> socket.socket:
    """Return a connection that has not sent a byte yet; it waits without end."""
    family = socket.AF_UNIX if address.scheme == "unix" else socket.AF_INET
    stranger = socket.socket(family, socket.SOCK_STREAM)
    stranger.settimeout(60)
    stranger.connect(f"\0{address.host}" if address.scheme == "unix" else (address.host, address.port))
    return stranger


@pytest.mark.parametrize("garbage", GARBAGE)
def test_garbage_is_dropped_at_once(open_acceptor: OpenAcceptor, garbage: bytes) -> None:
    """The connection ends before any limit, no other one is disturbed, and the next rank is let in."""
    be_patient(open_acceptor)
    with stranger_at(open_acceptor.address) as stranger:
        stranger.sendall(garbage)
        with suppress(ConnectionResetError):
            while stranger.recv(4096):
                pass

    call(open_acceptor)
    wait_until(lambda: 1 == len(open_acceptor.admitted))


def test_a_silent_connection_has_little_time(open_acceptor: OpenAcceptor) -> None:
    """A silent connection is dropped at the end of its time for the greeting, and counted."""
    with stranger_at(open_acceptor.address) as stranger:
        start_s = time.monotonic()

        assert b"" == stranger.recv(1)

    assert GREETING_LIMIT_S - 0.2 < time.monotonic() - start_s
    assert 1 == open_acceptor.acceptor.refused


def test_who_has_said_hello_has_little_time_too(open_acceptor: OpenAcceptor) -> None:
    """A challenge that is not answered does not hold the place."""
    hello = {"purpose": "data", "generation": 3, "rank": 1, "nonce": new_nonce()}
    with stranger_at(open_acceptor.address) as stranger:
        stranger.sendall(encode_frame({"type": "hello", "protocol": PROTOCOL_VERSION, **hello}))

        received = b"".join(iter(lambda: stranger.recv(4096), b""))

    assert b"challenge" in received
    assert 1 == open_acceptor.acceptor.refused


def test_the_oldest_silent_connections_make_room(open_acceptor: OpenAcceptor) -> None:
    """More connections than are served at once do not keep an honest rank out."""
    be_patient(open_acceptor)
    with ExitStack() as stack:
        strangers = [stack.enter_context(stranger_at(open_acceptor.address)) for _ in range(MAX_UNPROVED + 20)]

        call(open_acceptor)

        assert b"" == strangers[0].recv(1)
        wait_until(lambda: 1 == len(open_acceptor.admitted))
        assert open_acceptor.acceptor.refused >= 20


def test_a_rank_comes_through_a_flood(open_acceptor: OpenAcceptor, monkeypatch: pytest.MonkeyPatch) -> None:
    """An honest rank that loses its place to strangers tries again until it is in."""
    monkeypatch.setattr(acceptor_module, "MAX_UNPROVED", 4)

    def flood() -> None:
        with ExitStack() as stack:
            for _ in range(500):
                with suppress(BlockingIOError):  # the kernel's queue is full: a flood it is
                    stack.enter_context(stranger_at(open_acceptor.address))

    thread = threading.Thread(target=flood)
    thread.start()
    call(open_acceptor)
    thread.join()

    wait_until(lambda: 1 == len(open_acceptor.admitted))


def test_a_proved_channel_is_left_alone_by_the_door() -> None:
    """Time limits and strangers do not affect an admitted connection."""
    opened = OpenAcceptor(Address.fresh_unix())
    deadline = Deadline.after(60)
    channel: Channel = open_channel(Destination(opened.address, 0, "data"), Membership(2, 3, KEY), {}, deadline)
    wait_until(lambda: opened.admitted)

    opened.acceptor.close()
    opened.admitted[0].channel.send({"type": "still there"})

    assert "still there" == channel.receive(deadline)["type"]
    channel.close()
    opened.close()
