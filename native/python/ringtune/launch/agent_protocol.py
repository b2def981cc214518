# SPDX-License-Identifier: Apache-2.0
"""Protocol between the launcher and a host agent: orders one way, reports the other. Pure: bytes and messages.

Orders are JSON objects, one per line, on the agent's standard input: `check`, `start`, `signal`, `release`, `resize`,
`pause`, `beat`. An elastic job starts more ranks while others run, and releases those that have ended.
Reports are frames on its standard output, after a mark that tells them from output of the remote login before it:
a kind, a rank and a length, then the payload: a JSON object (`hello`, `started`, `failed`, `exit`, `beat`), or bytes
that a rank wrote. Both ends beat, so that a cut network is noticed on either side.
"""

import json
import platform
import struct
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ringtune.version import __version__

Message = dict[str, Any]

PROTOCOL = 3
MARK = b"\nringtune host agent\x00\x01\n"
MESSAGE, STDOUT, STDERR = b"m", b"o", b"e"
KINDS = (MESSAGE, STDOUT, STDERR)
BEAT_S = 5.0
SILENCE_S = 30.0  # six beats: a busy host is late, a cut one is silent
MAX_PAYLOAD_BYTES = 1 << 20
MAX_NOISE_BYTES = 1 << 20  # a login's greeting
MAX_ORDER_BYTES = 16 << 20  # the start order holds an environment and a command line, which the kernel bounds
_HEADER = struct.Struct(">cII")


def identity() -> Message:
    """Return the versions that both ends must have in common; of Python's the first two numbers."""
    python = f"{platform.python_implementation()} {sys.version_info.major}.{sys.version_info.minor}"
    return {"launch protocol": PROTOCOL, "ringtune": __version__, "Python": python}


class ProtocolError(Exception):
    """The other end sent a message that cannot be understood; the connection is of no further use."""


@dataclass(frozen=True)
class AgentReport:
    """One frame of an agent.

    Attributes:
        kind: `MESSAGE`, `STDOUT` or `STDERR`.
        rank: Rank that wrote the bytes; 0 for a message.
        payload: The bytes.
    """

    kind: bytes
    rank: int
    payload: bytes

    def message(self) -> Message:
        """Return the payload of a message.

        Raises:
            ProtocolError: If it is not a JSON object with a string `type`.
        """
        return _decode(self.payload)


def encode_order(message: Mapping[str, Any]) -> bytes:
    """Return an order as a line."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def encode_message(message: Mapping[str, Any]) -> bytes:
    """Return a report that is a message, as a frame."""
    return encode_output(MESSAGE, 0, json.dumps(message, separators=(",", ":")).encode())


def encode_output(kind: bytes, rank: int, payload: bytes) -> bytes:
    """Return a frame.

    Args:
        kind: One of `KINDS`.
        rank: Rank that wrote the bytes.
        payload: Bytes, at most `MAX_PAYLOAD_BYTES`.
    """
    return _HEADER.pack(kind, rank, len(payload)) + payload


class OrderDecoder:
    """Turns a stream of bytes, however it was cut, into orders."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, data: bytes) -> list[Message]:
        """Take bytes in and return the orders that are complete with them.

        Raises:
            ProtocolError: If a line is too long or not an order.
        """
        self._pending += data
        *lines, rest = self._pending.split(b"\n") if b"\n" in data else [self._pending]
        self._pending = rest
        if len(rest) > MAX_ORDER_BYTES:
            raise ProtocolError(f"an order of more than {MAX_ORDER_BYTES} bytes")
        return [_decode(bytes(line)) for line in lines]


class ReportDecoder:
    """Turns a stream of bytes, however it was cut, into reports; bytes before the mark are left out."""

    def __init__(self) -> None:
        self._pending = bytearray()
        self._is_marked = False

    def feed(self, data: bytes) -> list[AgentReport]:
        """Take bytes in and return the reports that are complete with them.

        Raises:
            ProtocolError: If the mark does not come, or a frame is malformed.
        """
        self._pending += data
        if not self._is_marked and not self._find_mark():
            return []
        reports = []
        start = 0
        while len(self._pending) - start >= _HEADER.size:
            kind, rank, length = _HEADER.unpack_from(self._pending, start)
            if kind not in KINDS or length > MAX_PAYLOAD_BYTES:
                raise ProtocolError(f"a frame of kind {kind!r} and {length} bytes")
            end = start + _HEADER.size + length
            if len(self._pending) < end:
                break
            reports.append(AgentReport(kind, rank, bytes(self._pending[start + _HEADER.size : end])))
            start = end
        del self._pending[:start]
        return reports

    def _find_mark(self) -> bool:
        noise, mark, rest = bytes(self._pending).partition(MARK)
        if not mark:
            if len(noise) > MAX_NOISE_BYTES:
                raise ProtocolError(f"{len(noise)} bytes that are not a host agent's")
            return False
        self._is_marked = True
        self._pending = bytearray(rest)
        return True


def _decode(text: bytes) -> Message:
    try:
        message = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"a message is not JSON: {error}") from error
    if not isinstance(message, dict) or not isinstance(message.get("type"), str):
        raise ProtocolError("a message is not an object with a string 'type'")
    return message
