# SPDX-License-Identifier: Apache-2.0
"""Floods rank 0's rendezvous with connections that send garbage, or no byte, until rank 0 has stopped listening.

Arguments: the address, how many connections at most.
"""

import contextlib
import socket
import sys
import time
from collections import deque

from ringtune.meeting.rendezvous.address import Address, connect
from ringtune.meeting.rendezvous.channel import Deadline

GARBAGE = (b"", b"\x00\x00\x00\x02{}", b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 9, b'\x00\x00\x00\x10{"type":"hello"}')
REFUSALS = 200  # in a row, a millisecond apart: rank 0 has gone
EARLY_REFUSALS = 30_000  # rank 0 has not come yet
KEPT = 200  # connections that stay open; a flood must not run out of descriptors itself


def main(address: Address, count: int) -> None:
    """Flood the address."""
    made, refused = 0, 0
    kept: deque[socket.socket] = deque()
    while made < count and refused < (REFUSALS if made else EARLY_REFUSALS):
        try:
            connection = connect(address, Deadline.after(1))
        except OSError:
            refused += 1
            time.sleep(0.001)
            continue
        made, refused = made + 1, 0
        with contextlib.suppress(OSError):
            connection.send(GARBAGE[made % len(GARBAGE)])
        kept.append(connection)
        if len(kept) > KEPT:
            kept.popleft().close()
    sys.stdout.write(f"{made} connections\n")


target = Address.parse(sys.argv[1])
main(Address("unix", f"{target.host}.0") if target.scheme == "unix" else target, int(sys.argv[2]))
