# SPDX-License-Identifier: Apache-2.0
"""Length-framed JSON messages over a stream socket, with file descriptors where the socket is a local one.

A frame is four bytes of length (big endian) and that many bytes of UTF-8 JSON: one object with a string `type`.
The module does not know the messages' meaning, and trusts no byte of them. It never reads past the message that
it waits for, so that a socket can be handed on between two messages.
"""

import array
import json
import math
import os
import socket
import struct
import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from ringtune.system.event_loop import first_readable, is_readable, is_writable
from ringtune.system.printable import shown
from ringtune.system.standard_streams import above_standard_streams

from .peer_process import PeerProcess, peer_process
from .tls import Keyring, Session, TlsError, TlsSocket

Message = dict[str, Any]

MAX_FRAME_BYTES = 1 << 20  # the largest honest message, the plan of a world of 1,000 ranks, is under 256 KiB
LARGEST_INTEGER = 2**63 - 1  # bytes, bits per second and ids are below it; the engine's integers end there
MAX_DIGITS = 20  # digits of the largest integer, sign included; one more is over the limit
MAX_DESCRIPTORS = 253  # the kernel's SCM_MAX_FD
SEND_LIMIT_S = 5.0  # a peer that does not read for so long is given up
_KEEPALIVE = {
    socket.TCP_KEEPIDLE: 10,  # seconds of silence before the first probe
    socket.TCP_KEEPINTVL: 5,  # seconds between probes
    socket.TCP_KEEPCNT: 4,  # unanswered probes that end the connection
    socket.TCP_USER_TIMEOUT: 30_000,  # milliseconds for which sent bytes may stay unacknowledged
}
_LENGTH = struct.Struct(">I")


class ChannelError(Exception):
    """The peer closed the channel or broke the framing; the channel is of no further use."""


class NewsSource(Protocol):
    """A connection whose news may end a wait for something else."""

    def fileno(self) -> int:
        """Return the descriptor that can be read when there may be news."""

    def has_news(self) -> bool:
        """Return whether there are news; takes in the bytes that have come, without waiting."""


class Interrupted(Exception):  # noqa: N818  (nothing is wrong: something else became more important)
    """Another channel has a message, which takes precedence over the one awaited."""


@dataclass(frozen=True)
class Deadline:
    """A point on the monotonic clock, made from a limit in seconds."""

    limit_s: float
    start_s: float

    @classmethod
    def after(cls, limit_s: float) -> "Deadline":
        """Return the deadline `limit_s` seconds from now."""
        return cls(limit_s=limit_s, start_s=time.monotonic())

    def remaining_s(self) -> float:
        """Return the seconds left, never below zero."""
        return max(0.0, self.start_s + self.limit_s - time.monotonic())

    def has_passed(self) -> bool:
        """Return whether no time is left."""
        return self.remaining_s() <= 0.0


def encode_frame(message: Mapping[str, Any]) -> bytes:
    """Return the frame of one message.

    Args:
        message: A JSON object with a string `type`.

    Raises:
        ValueError: If the message is larger than a frame may be, or holds NaN or an infinity.
    """
    body = json.dumps(message, separators=(",", ":"), allow_nan=False).encode()
    if len(body) > MAX_FRAME_BYTES:
        raise ValueError(f"a message of {len(body)} bytes is over the limit of {MAX_FRAME_BYTES}")
    return _LENGTH.pack(len(body)) + body


class FrameDecoder:
    """Turns a stream of bytes, however it was cut, into messages.

    Attributes:
        limit_bytes: The longest frame that is taken; may be changed between frames.
    """

    def __init__(self, limit_bytes: int = MAX_FRAME_BYTES) -> None:
        self.limit_bytes = limit_bytes
        self._pending = bytearray()

    def wanted_bytes(self) -> int:
        """Return how many more bytes are needed to know the frame's length, or to have it whole; at least one."""
        if len(self._pending) < _LENGTH.size:
            return _LENGTH.size - len(self._pending)
        return _LENGTH.size + self._frame_bytes() - len(self._pending)

    def feed(self, data: bytes) -> list[Message]:
        """Take bytes in and return the messages that are complete with them.

        Raises:
            ChannelError: If a frame is too long, not JSON, or not an object with a string `type`.
        """
        self._pending += data
        messages: list[Message] = []
        while len(self._pending) >= _LENGTH.size:
            length = self._frame_bytes()
            if not 0 < length <= self.limit_bytes:
                raise ChannelError(f"a frame of {length} bytes is empty, or over the limit of {self.limit_bytes}")
            end = _LENGTH.size + length
            if len(self._pending) < end:
                break
            messages.append(_decode_body(bytes(self._pending[_LENGTH.size : end])))
            del self._pending[:end]
        return messages

    def _frame_bytes(self) -> int:
        (length,) = _LENGTH.unpack_from(self._pending)
        return int(length)


def read_json(text: str | bytes) -> Any:
    """Return the value of a JSON text of a peer: no NaN, no infinity, no number that a message has no use for.

    Raises:
        ChannelError: If it is no such text, or nested too deeply to be read.
    """
    try:
        return json.loads(text, parse_constant=_refused, parse_int=_bounded, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise ChannelError(f"a text is not JSON, or not within bounds: {shown(str(error))}") from error


def _refused(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _bounded(digits: str) -> int:
    number = int(digits[: MAX_DIGITS + 1])
    if abs(number) > LARGEST_INTEGER:
        raise ValueError(f"an integer of {len(digits)} digits is over the limit of {LARGEST_INTEGER}")
    return number


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{shown(digits)} is over the limit of a number")
    return number


def _decode_body(body: bytes) -> Message:
    message = read_json(body)
    if not isinstance(message, dict) or not isinstance(message.get("type"), str):
        raise ChannelError("a frame is not an object with a string 'type'")
    return message


class Channel:
    """One connection of the rendezvous. Not thread-safe; owns the socket and descriptors not yet taken.

    Attributes:
        is_local: Whether this is a unix socket.
    """

    def __init__(self, connection: socket.socket, limit_bytes: int = MAX_FRAME_BYTES) -> None:
        connection.setblocking(False)
        self._socket: socket.socket | TlsSocket = connection
        self.is_local = connection.family == socket.AF_UNIX
        self._decoder = FrameDecoder(limit_bytes)
        self._inbox: deque[Message] = deque()
        self._descriptors: list[int] = []

    def fileno(self) -> int:
        """Return the socket's descriptor, for a selector; -1 once it is closed."""
        return self._plain.fileno()

    def set_frame_limit(self, limit_bytes: int) -> None:
        """Limit the length of the frames that the peer may send from now on."""
        self._decoder.limit_bytes = limit_bytes

    def peer(self) -> PeerProcess:
        """Return the process at the other end of a unix socket, as the kernel saw it connect."""
        return peer_process(self._plain)

    @property
    def is_strangers(self) -> bool:
        """True if the peer is a process of this host, but of another user."""
        return self.is_local and not self.peer().is_own_users

    def hasten(self) -> None:
        """Send short messages over TCP at once, without waiting for more to go with them."""
        if not self.is_local:
            self._plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def notice_silence(self) -> None:
        """Have the kernel end a TCP connection whose other host answers no more, after some 30 s."""
        if not self.is_local:
            for option, value in _KEEPALIVE.items():
                self._plain.setsockopt(socket.IPPROTO_TCP, option, value)
            self._plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def own_host(self) -> str:
        """Return the address of this end of a TCP connection, without its port."""
        return str(self._plain.getsockname()[0])

    def start_tls(self, keyring: "Keyring", *, is_server: bool) -> None:
        """Begin TLS after the message that was sent or received last; the end that called the other is the client."""
        self._socket = TlsSocket(self._plain, keyring, is_server=is_server)

    def agree_on_tls(self, deadline: Deadline, interrupt: NewsSource | None = None) -> None:
        """Complete the handshake as a client; a server's goes on while it reads. Errors as for `receive`."""
        while isinstance(self._socket, TlsSocket) and not self._agrees(self._socket):
            self._await_readable(deadline, interrupt)

    @property
    def tls(self) -> "Session | None":
        """The TLS session; None on a connection of clear text."""
        return self._socket.session if isinstance(self._socket, TlsSocket) else None

    @property
    def binding(self) -> str:
        """Secret of this TLS connection alone, in hex; empty on one of clear text."""
        return "" if self.tls is None else self.tls.binding().hex()

    def send(self, message: Mapping[str, Any], descriptors: Iterable[int] = ()) -> None:
        """Send a message and copies of the descriptors with it.

        Raises:
            ChannelError: If the peer is gone or did not read within `SEND_LIMIT_S`.
        """
        rest = memoryview(encode_frame(message))
        sent_descriptors = list(descriptors)
        deadline = Deadline.after(SEND_LIMIT_S)
        try:
            while rest:
                try:
                    if sent_descriptors:
                        sent = socket.send_fds(self._plain, [rest], sent_descriptors)
                    else:
                        sent = self._socket.send(rest)
                except BlockingIOError:
                    self._wait_writable(deadline)
                    continue
                rest, sent_descriptors = rest[sent:], []
        except OSError as error:
            raise _lost(error) from error

    def pump(self) -> None:
        """Read the bytes that are there, up to the end of the message under way, which goes to the inbox; never waits.

        Raises:
            ChannelError: If the peer closed the connection or broke the framing.
        """
        has_message = False
        while not has_message:
            try:
                data = self._read(self._decoder.wanted_bytes())
            except BlockingIOError:
                return
            except OSError as error:
                raise _lost(error) from error
            if not data:
                raise ChannelError("the peer closed the connection")
            messages = self._decoder.feed(data)
            has_message = bool(messages)
            self._inbox.extend(messages)

    def has_news(self) -> bool:
        """Return whether a message, or the end of the connection, can be had without waiting."""
        return bool(self._inbox) or is_readable(self)

    def next_message(self) -> Message | None:
        """Return the oldest message of the inbox, or None."""
        return self._inbox.popleft() if self._inbox else None

    def receive(self, deadline: Deadline, interrupt: NewsSource | None = None) -> Message:
        """Wait for a message.

        Args:
            deadline: End of the wait.
            interrupt: A connection whose news go before this one's.

        Raises:
            ChannelError: If the peer closed the connection or broke the framing.
            Interrupted: If `interrupt` has news.
            TimeoutError: If no message came in time.
        """
        while not self._inbox:
            self._await_readable(deadline, interrupt)
            self.pump()
        return self._inbox.popleft()

    def take_descriptors(self) -> list[int]:
        """Hand the descriptors that came so far to the caller, which closes them."""
        taken, self._descriptors = self._descriptors, []
        return taken

    def detach(self) -> int:
        """Hand the socket's descriptor to the caller, between two messages; the channel is closed."""
        descriptor = above_standard_streams(self._plain.detach())
        if self.tls is not None:
            self.tls.move_to(descriptor)
        self.close()
        return descriptor

    def close(self) -> None:
        """Close the socket and every descriptor that no caller took."""
        for descriptor in self.take_descriptors():
            os.close(descriptor)
        self._plain.close()

    @property
    def _plain(self) -> socket.socket:
        return self._socket.plain if isinstance(self._socket, TlsSocket) else self._socket

    def _agrees(self, secured: TlsSocket) -> bool:
        try:
            return secured.agrees()
        except OSError as error:
            raise _lost(error) from error

    def _await_readable(self, deadline: Deadline, interrupt: NewsSource | None) -> None:
        if interrupt is not None and interrupt.has_news():
            raise Interrupted
        watched = [self] if interrupt is None else [interrupt, self]
        if first_readable(watched, deadline.remaining_s()) is None and deadline.has_passed():
            raise TimeoutError

    def _read(self, size: int) -> bytes:
        if not self.is_local:
            return self._socket.recv(size)
        ancillary_bytes = socket.CMSG_SPACE(MAX_DESCRIPTORS * 4)
        data, ancillary, _, _ = self._plain.recvmsg(size, ancillary_bytes, socket.MSG_CMSG_CLOEXEC)
        for level, kind, payload in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                received = array.array("i")
                received.frombytes(payload[: len(payload) - len(payload) % received.itemsize])
                self._descriptors.extend(above_standard_streams(descriptor) for descriptor in received)
        return data

    def _wait_writable(self, deadline: Deadline) -> None:
        if not is_writable(self._plain, deadline.remaining_s()):
            raise TimeoutError(f"nothing was read for {deadline.limit_s:.0f} s")


def _lost(error: OSError) -> ChannelError:
    return ChannelError(str(error) if isinstance(error, TlsError) else f"the peer is gone: {error}")


def could_tell(channel: Channel, message: Message) -> bool:
    """Send a message to a peer that may be gone; return whether it was sent. A message that is too large is not."""
    try:
        channel.send(message)
    except (ChannelError, ValueError):
        return False
    return True
