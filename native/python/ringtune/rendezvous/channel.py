# SPDX-License-Identifier: Apache-2.0
"""Length-framed JSON messages, with file descriptors, over a local stream socket.

A frame is four bytes of length (big endian) and that many bytes of UTF-8 JSON: one object with a string `type`.
The module knows nothing of what the messages mean, and trusts no byte of them.
"""

import array
import json
import os
import socket
import struct
import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Message = dict[str, Any]

MAX_FRAME_BYTES = 1 << 20  # the largest honest message, all settings of all ranks, is under 64 KiB
MAX_DESCRIPTORS = 253  # the kernel's SCM_MAX_FD
SEND_LIMIT_S = 5.0  # a peer that does not read for so long is given up
_LENGTH = struct.Struct(">I")
_READ_BYTES = 65536


class ChannelError(Exception):
    """The peer closed the channel or broke the framing; the channel is of no further use."""


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
    """Turns a stream of bytes, however it was cut, into messages."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, data: bytes) -> list[Message]:
        """Take bytes in and return the messages that are complete with them.

        Raises:
            ChannelError: If a frame is too long, not JSON, or not an object with a string `type`.
        """
        self._pending += data
        messages: list[Message] = []
        while len(self._pending) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._pending)
            if length > MAX_FRAME_BYTES:
                raise ChannelError(f"a frame of {length} bytes is over the limit of {MAX_FRAME_BYTES}")
            end = _LENGTH.size + length
            if len(self._pending) < end:
                break
            messages.append(_decode_body(bytes(self._pending[_LENGTH.size : end])))
            del self._pending[:end]
        return messages


def _decode_body(body: bytes) -> Message:
    try:
        message = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ChannelError(f"a frame is not JSON: {error}") from error
    if not isinstance(message, dict) or not isinstance(message.get("type"), str):
        raise ChannelError("a frame is not an object with a string 'type'")
    return message


class Channel:
    """One connection of the meeting. Not thread-safe; owns the socket and descriptors not yet taken."""

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(SEND_LIMIT_S)
        self._socket = connection
        self._decoder = FrameDecoder()
        self._inbox: deque[Message] = deque()
        self._descriptors: list[int] = []

    def fileno(self) -> int:
        """Return the socket's descriptor, for a selector."""
        return self._socket.fileno()

    def peer(self) -> tuple[int, int]:
        """Return (pid, uid) of the process at the other end, as the kernel saw it connect."""
        size = struct.calcsize("3i")
        pid, uid, _ = struct.unpack("3i", self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
        return pid, uid

    def send(self, message: Mapping[str, Any], descriptors: Iterable[int] = ()) -> None:
        """Send a message and copies of the descriptors with it.

        Raises:
            ChannelError: If the peer is gone or did not read within `SEND_LIMIT_S`.
        """
        frame = encode_frame(message)
        sent_descriptors = list(descriptors)
        try:
            sent = socket.send_fds(self._socket, [frame], sent_descriptors) if sent_descriptors else 0
            self._socket.sendall(frame[sent:])
        except OSError as error:
            raise ChannelError(f"the peer is gone: {error}") from error

    def pump(self) -> None:
        """Read once, as a selector said that there is something; messages go to the inbox.

        Raises:
            ChannelError: If the peer closed the connection or broke the framing.
        """
        ancillary_bytes = socket.CMSG_SPACE(MAX_DESCRIPTORS * 4)
        try:
            data, ancillary, _, _ = self._socket.recvmsg(_READ_BYTES, ancillary_bytes, socket.MSG_CMSG_CLOEXEC)
        except OSError as error:
            raise ChannelError(f"the peer is gone: {error}") from error
        for level, kind, payload in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                received = array.array("i")
                received.frombytes(payload[: len(payload) - len(payload) % received.itemsize])
                self._descriptors.extend(received)
        if not data:
            raise ChannelError("the peer closed the connection")
        self._inbox.extend(self._decoder.feed(data))

    def next_message(self) -> Message | None:
        """Return the oldest message of the inbox, or None."""
        return self._inbox.popleft() if self._inbox else None

    def receive(self, deadline: Deadline) -> Message:
        """Wait for a message.

        Raises:
            ChannelError: If the peer closed the connection or broke the framing.
            TimeoutError: If none came in time.
        """
        while not self._inbox:
            if deadline.has_passed():
                raise TimeoutError
            self._socket.settimeout(max(deadline.remaining_s(), 0.001))
            try:
                self.pump()
            except ChannelError as error:
                if isinstance(error.__cause__, TimeoutError):
                    continue
                raise
            finally:
                self._socket.settimeout(SEND_LIMIT_S)
        return self._inbox.popleft()

    def take_descriptors(self) -> list[int]:
        """Hand the descriptors that came so far to the caller, who closes them."""
        taken, self._descriptors = self._descriptors, []
        return taken

    def close(self) -> None:
        """Close the socket and every descriptor that nobody took."""
        for descriptor in self.take_descriptors():
            os.close(descriptor)
        self._socket.close()
