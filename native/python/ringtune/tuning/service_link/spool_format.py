# SPDX-License-Identifier: Apache-2.0
r"""Frames of the spool's files: a damaged frame costs no other.

A frame is `CRC32 LENGTH PAYLOAD\n`, the first two as eight hex digits each. The payload has no newline, so that a
reader that has lost its place finds it again after the next one; a frame whose checksum holds ends where its length
says, so that a damaged newline loses no other frame.
"""

import re
import zlib

_HEAD = re.compile(rb"([0-9a-f]{8}) ([0-9a-f]{8}) ")
HEAD_BYTES = 18
MAX_PAYLOAD_BYTES = 1 << 20


def frame(payload: bytes) -> bytes:
    """Return the frame of a payload, which has no newline and at most `MAX_PAYLOAD_BYTES`.

    Raises:
        ValueError: If it has a newline, or is longer.
    """
    if b"\n" in payload or len(payload) > MAX_PAYLOAD_BYTES:
        raise ValueError(f"a payload of {len(payload)} bytes, or one with a newline, has no frame")
    return b"%08x %08x %s\n" % (zlib.crc32(payload), len(payload), payload)


def payloads(data: bytes) -> list[bytes]:
    """Return the payloads of all whole frames, in their order; bytes between them are skipped."""
    found: list[bytes] = []
    place = 0
    while place < len(data):
        payload = _payload_at(data, place)
        if payload is not None:
            found.append(payload)
            place += HEAD_BYTES + len(payload) + 1
            continue
        end_of_line = data.find(b"\n", place)
        place = len(data) if end_of_line < 0 else end_of_line + 1
    return found


def _payload_at(data: bytes, place: int) -> bytes | None:
    """Return the payload of the frame that begins at a place, None if none does."""
    head = _HEAD.match(data, place)
    if head is None:
        return None
    length = int(head[2], 16)
    payload = data[head.end() : head.end() + min(length, MAX_PAYLOAD_BYTES)]
    if len(payload) != length or zlib.crc32(payload) != int(head[1], 16):
        return None
    return payload
