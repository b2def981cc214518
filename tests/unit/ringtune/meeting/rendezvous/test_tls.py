# SPDX-License-Identifier: Apache-2.0
"""TLS at an acceptor: both kinds of keys, ranks that differ, strangers, replays, and somebody between the two."""

import random
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from ringtune.errors import CollectiveTimeout, ConfigError
from ringtune.meeting.rendezvous.address import Address, bound_address, listen
from ringtune.meeting.rendezvous.admission import Caller, acceptor_of_members
from ringtune.meeting.rendezvous.channel import Channel, ChannelError, Deadline, FrameDecoder, encode_frame
from ringtune.meeting.rendezvous.connector import Destination, open_channel
from ringtune.meeting.rendezvous.proof import PROTOCOL_VERSION, Membership, Transcript, new_nonce
from ringtune.meeting.rendezvous.tls import CLEAR, Tls, tls_by_certificates, tls_by_job_key
from ringtune.system.event_loop import EventLoop
from tests.certificates import Authority
from tests.waiting import wait_until

KEY = b"k" * 32
LIMIT_S = 60.0
SHORT_S = 2.0
LARGE = "x" * 600_000
Pass = Callable[[bytes], bytes]


class Door:
    """An acceptor of rank 0, served by a thread of its own."""

    def __init__(self, tls: Tls, scheme: str = "tcp") -> None:
        self.admitted: list[Caller] = []
        self._loop = EventLoop()
        listener = listen(Address("tcp", "127.0.0.1") if scheme == "tcp" else Address.fresh_unix())
        self.address = bound_address(listener)
        membership = Membership(0, 0, KEY, tls)
        purposes = ("meeting", "data")
        self.acceptor = acceptor_of_members(self._loop, listener, membership, purposes, self.admitted.append)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while not self._is_over.is_set():
            self._loop.turn(0.02)

    def close(self) -> None:
        """End the thread and close everything."""
        self._is_over.set()
        self._thread.join()
        self.acceptor.close()
        self._loop.close()
        for caller in self.admitted:
            caller.channel.close()


def call(address: Address, tls: Tls, *, key: bytes = KEY, purpose: str = "data", limit_s: float = LIMIT_S) -> Channel:
    """Call rank 0 as rank 2."""
    to = Destination(address, 0, purpose)
    return open_channel(to, Membership(2, 0, key, tls), {"word": "hi"}, Deadline.after(limit_s))


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """The authority of the job's certificates."""
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(params=["job key", "certificates"])
def tls(request: pytest.FixtureRequest, authority: Authority) -> Tls:
    """Either kind of keys."""
    return tls_by_job_key() if request.param == "job key" else tls_by_certificates(*authority.files("rank"))


def test_messages_of_any_size_pass_both_ways(tls: Tls) -> None:
    """A frame of many records arrives whole, and the connection's secret is known at both ends."""
    with closing(Door(tls)) as door, closing(call(door.address, tls)) as near:
        wait_until(lambda: door.admitted)
        far = door.admitted[0].channel
        for source, target in ((near, far), (far, near)):
            thread = threading.Thread(target=source.send, args=({"type": "large", "text": LARGE},))
            thread.start()
            assert LARGE == target.receive(Deadline.after(LIMIT_S))["text"]
            thread.join()

        assert near.tls is not None
        assert "hi" == door.admitted[0].join["word"]
        assert near.binding == far.binding != ""


def test_a_unix_socket_needs_no_tls(tls: Tls) -> None:
    """A connection inside the kernel is not encrypted."""
    with closing(Door(tls, "unix")) as door, closing(call(door.address, tls)) as channel:
        assert channel.tls is None


@pytest.mark.parametrize("caller_has", [True, False])
def test_a_rank_that_differs_is_told_and_rank_0_hears_why(*, caller_has: bool) -> None:
    """Both sides name both modes, over any socket; rank 0 gets the rank's failure alone."""
    modes = (tls_by_job_key(), CLEAR) if caller_has else (CLEAR, tls_by_job_key())
    words = ("by the job key", "off") if caller_has else ("off", "by the job key")
    for scheme in ("tcp", "unix"):
        with closing(Door(modes[1], scheme)) as door:
            with pytest.raises(ConfigError, match=f"rank 2 has TLS {words[0]} but rank 0 has TLS {words[1]}") as caught:
                call(door.address, modes[0], purpose="meeting")

            wait_until(lambda door=door: door.admitted)  # type: ignore[misc]
            assert {"failure": {"error": "ConfigError", "text": str(caught.value)}} == door.admitted[0].join


def test_a_data_connection_without_the_tls_is_never_admitted() -> None:
    """A holder of the job key that proves itself in clear text is dropped where there is TLS; ours does not try."""
    with closing(Door(tls_by_job_key())) as door:
        with pytest.raises(ConfigError, match="rank 2 has TLS off but rank 0 has TLS by the job key"):
            call(door.address, CLEAR)
        with closing(Channel(socket.create_connection((door.address.host, door.address.port)))) as stranger:
            deadline, nonce = Deadline.after(LIMIT_S), new_nonce()
            hello = {"protocol": PROTOCOL_VERSION, "purpose": "data", "generation": 0, "rank": 2, "nonce": nonce}
            stranger.send({"type": "hello", **hello, "tls": "off"})
            challenge = stranger.receive(deadline)
            statements = Transcript("data", 0, 2, 0, nonce, challenge["nonce"], "off", challenge["tls"], "")
            assert statements.is_proof(KEY, "callee", challenge["proof"])
            stranger.send({"type": "join", "proof": statements.proof(KEY, "caller")})
            with pytest.raises(ChannelError, match="closed the connection"):
                stranger.receive(deadline)

        assert [] == door.admitted


def test_another_job_key_is_an_error_for_the_caller(tls: Tls) -> None:
    """TLS by the job key fails; by certificates it comes about, and the proof fails."""
    with closing(Door(tls)) as door:
        with pytest.raises(ConfigError, match="job keys"):
            call(door.address, tls, key=b"x" * 32)

        assert [] == door.admitted


@pytest.mark.parametrize("is_callers", [True, False])
@pytest.mark.parametrize(("kind", "words"), [("expired", "expired"), ("foreign", "unknown ca|local issuer")])
def test_a_wrong_certificate_is_named(
    authority: Authority, tmp_path: Path, kind: str, words: str, *, is_callers: bool
) -> None:
    """An expired one and another authority's: the caller gets an error, and rank 0 notes the reason."""
    good = tls_by_certificates(*authority.files("good"))
    files = authority.files("expired", days=0) if kind == "expired" else Authority(tmp_path, "foreign").files("rank")
    wrong = tls_by_certificates(*files[:2], authority.files("good")[2])
    callee, caller = (good, wrong) if is_callers else (wrong, good)
    with closing(Door(callee)) as door:
        with pytest.raises(ConfigError, match=f"do not agree on TLS by certificates: .*({words})"):
            call(door.address, caller)

        wait_until(lambda: door.acceptor.refused)
        assert any(word in door.acceptor.last_refusal for word in words.split("|")), door.acceptor.last_refusal
        assert [] == door.admitted


class Wire:
    """A relay before a door, which may change the callers' bytes, and keeps them.

    Attributes:
        address: Address of the relay.
        sent: Bytes that the first caller has sent.
    """

    def __init__(self, door: Address, change: Pass) -> None:
        self.sent = bytearray()
        self._door = door
        self._change = change
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = Address("tcp", *self._listener.getsockname())
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                caller, _ = self._listener.accept()
                door = socket.create_connection((self._door.host, self._door.port))
                for source, target, change in ((caller, door, self._kept), (door, caller, bytes)):
                    threading.Thread(target=self._pass_on, args=(source, target, change), daemon=True).start()

    def _kept(self, data: bytes) -> bytes:
        self.sent += data
        return self._change(data)

    def _pass_on(self, source: socket.socket, target: socket.socket, change: Pass) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                target.sendall(change(data))
            target.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Stop listening."""
        self._listener.close()


def test_what_passes_cannot_be_read(tls: Tls) -> None:
    """The join and later messages can be read on the way without TLS, and not with it."""
    seen = {}
    for mode in (CLEAR, tls):
        with closing(Door(mode)) as door, closing(Wire(door.address, bytes)) as wire:
            with closing(call(wire.address, mode)) as channel:
                channel.send({"type": "secret", "text": "a secret"})
                wait_until(lambda door=door: door.admitted)  # type: ignore[misc]
                assert "secret" == door.admitted[0].channel.receive(Deadline.after(LIMIT_S))["type"]
            seen[mode.mode] = [word in bytes(wire.sent) for word in (b'"word"', b"a secret")]

    assert {CLEAR.mode: [True, True], tls.mode: [False, False]} == seen


def test_a_repeated_connection_is_refused(tls: Tls) -> None:
    """All that an honest caller has said, said again, is no proof: handshake and proof are for one connection."""
    with closing(Door(tls)) as door, closing(Wire(door.address, bytes)) as wire:
        call(wire.address, tls).close()
        wait_until(lambda: door.admitted)

        with socket.create_connection((door.address.host, door.address.port)) as stranger:
            stranger.settimeout(LIMIT_S)
            stranger.sendall(bytes(wire.sent))
            with suppress(ConnectionError):
                while stranger.recv(1 << 16):
                    pass

        assert 1 == len(door.admitted)
        assert 1 == door.acceptor.refused


def test_nobody_talks_a_rank_out_of_tls(tls: Tls) -> None:
    """A hello that is changed to one without TLS leads to an error, and never to clear text."""
    mode = f'"{tls.mode}"'.encode()

    def without_tls(data: bytes) -> bytes:
        body = data[4:].replace(mode, b'"off"' + b" " * (len(mode) - 5))
        return data[:4] + body

    with closing(Door(tls)) as door, closing(Wire(door.address, without_tls)) as wire:
        with pytest.raises(ConfigError, match="malformed|job keys"):
            call(wire.address, tls)

        assert [] == door.admitted


def test_a_certificate_without_the_job_key_is_not_enough(authority: Authority) -> None:
    """Somebody between the two, with a certificate of the authority, passes the proofs on: they do not hold there."""
    tls = tls_by_certificates(*authority.files("honest"))
    thief = tls_by_certificates(*authority.files("thief"))
    with closing(Door(tls)) as door, between(door.address, thief) as address:
        with pytest.raises(ConfigError, match="different job keys"):
            call(address, tls)

        assert [] == door.admitted


@contextmanager
def between(door: Address, thief: Tls) -> Iterator[Address]:
    """Listen as a stranger that speaks TLS with both ends, and passes their messages on."""
    listener = listen(Address("tcp", "127.0.0.1"))
    listener.setblocking(True)

    def serve() -> None:
        with suppress(OSError, ChannelError, TimeoutError), ExitStack() as stack:
            caller = stack.enter_context(closing(Channel(listener.accept()[0])))
            own = stack.enter_context(closing(Channel(socket.create_connection((door.host, door.port)))))
            deadline = Deadline.after(LIMIT_S)
            own.send(caller.receive(deadline))
            caller.send(own.receive(deadline))
            own.start_tls(thief.keyring(KEY), is_server=False)
            own.agree_on_tls(deadline)
            caller.start_tls(thief.keyring(KEY), is_server=True)
            while True:
                own.send(caller.receive(deadline))
                caller.send(own.receive(deadline))

    thread = threading.Thread(target=serve)
    thread.start()
    yield bound_address(listener)
    listener.close()
    thread.join()


@pytest.mark.parametrize("seed", range(20))
def test_garbage_in_place_of_a_handshake_is_dropped(seed: int) -> None:
    """Random bytes, random records and none at all: no error at the door, and honest ranks come in."""
    dice = random.Random(seed)
    garbage = dice.randbytes(dice.randrange(300))
    garbage = garbage if seed % 2 else b"\x16\x03\x01" + len(garbage).to_bytes(2, "big") + garbage
    tls = tls_by_job_key()
    hello: dict[str, Any] = {"purpose": "data", "generation": 0, "rank": 1, "nonce": new_nonce(), "tls": tls.mode}
    with closing(Door(tls)) as door:
        with socket.create_connection((door.address.host, door.address.port)) as stranger:
            stranger.settimeout(LIMIT_S)
            stranger.sendall(encode_frame({"type": "hello", "protocol": PROTOCOL_VERSION, **hello}))
            assert [{"type": "secure"}] == FrameDecoder().feed(stranger.recv(4096))
            with suppress(OSError):  # it may be dropped before it has said all
                stranger.sendall(garbage)
                stranger.shutdown(socket.SHUT_WR)
                while stranger.recv(4096):
                    pass

        call(door.address, tls).close()
        wait_until(lambda: door.admitted)
        assert [2] == [caller.rank for caller in door.admitted]
        assert 1 == door.acceptor.refused


@pytest.mark.parametrize("mode", ["", "on", None, 1, ["off"]])
def test_a_hello_with_an_unknown_mode_is_dropped(mode: object) -> None:
    """A mode that is none of the three is no reason for an answer."""
    hello = {"purpose": "data", "generation": 0, "rank": 1, "nonce": new_nonce(), "tls": mode}
    with closing(Door(CLEAR)) as door, socket.create_connection((door.address.host, door.address.port)) as stranger:
        stranger.settimeout(LIMIT_S)
        stranger.sendall(encode_frame({"type": "hello", "protocol": PROTOCOL_VERSION, **hello}))
        assert b"" == stranger.recv(4096)


def test_a_plain_listener_is_waited_for_like_any_stranger() -> None:
    """A process that is no rank of the job, and drops the connection, is called again until the time is up."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = Address("tcp", *listener.getsockname())

        def drop() -> None:
            with suppress(OSError):
                while True:
                    listener.accept()[0].close()

        threading.Thread(target=drop, daemon=True).start()
        with pytest.raises(CollectiveTimeout, match="dropped the connection"):
            call(address, tls_by_job_key(), limit_s=SHORT_S)
