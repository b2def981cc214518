# SPDX-License-Identifier: Apache-2.0
"""Lines that the program prints_lines writes on eight ranks, and checks of those that arrived."""

import re
import zlib

RANKS, COUNT, LONGEST = 8, 1250, 1 << 16


def torn_lines(data: bytes, prefix: str) -> list[bytes]:
    """Return the lines that are no line of a rank's, with its number in front where that is expected."""
    return [line for line in data.split(b"\n")[:-1] if not _is_whole(line, prefix)]


def _is_whole(line: bytes, prefix: str) -> bool:
    match = re.fullmatch(rb"(?P<prefix>(\[\d\] )?)(?P<body>(out|err) (?P<rank>\d) .*) (?P<sum>[0-9a-f]{8})", line)
    if match is None or prefix.encode().replace(b"N", match["rank"]) != match["prefix"]:
        return False
    return zlib.crc32(match["body"]) == int(match["sum"], 16)


def numbers(data: bytes, stream: str) -> dict[int, list[int]]:
    """Return the numbers of each rank's lines in the order in which they came."""
    found: dict[int, list[int]] = {rank: [] for rank in range(RANKS)}
    for match in re.finditer(rb"^(?:\[\d\] )?%s (\d) (\d+) " % stream.encode(), data, re.MULTILINE):
        found[int(match[1])].append(int(match[2]))
    return found


ALL = {rank: list(range(COUNT)) for rank in range(RANKS)}
