# SPDX-License-Identifier: Apache-2.0
"""Prints numbered lines of many lengths to both streams, in pieces of odd sizes; a sum at the end tells a torn one.

Arguments: lines for each stream, and the length of the longest.
"""

import os
import sys
import zlib

STREAMS = {"out": 1, "err": 2}
PIECE_BYTES = (1, 61, 977, 4096)

rank = int(os.environ["RINGTUNE_RANK"])
count, longest = int(sys.argv[1]), int(sys.argv[2])


def write(descriptor: int, data: bytes, piece_bytes: int) -> None:
    """Write all of it, with one call for each piece."""
    while data:
        data = data[os.write(descriptor, data[:piece_bytes]) :]


for number in range(count):
    for name, stream in STREAMS.items():
        length = longest if number == count // 2 else (number * 37 + rank) % 150
        body = f"{name} {rank} {number} ".encode() + b"x" * length
        line = body[: longest - 10] + b" %08x\n" % zlib.crc32(body[: longest - 10])
        write(stream, line, PIECE_BYTES[number % len(PIECE_BYTES)] if length < longest else longest)
