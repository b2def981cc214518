# SPDX-License-Identifier: Apache-2.0
"""Sums while somebody on the way changes bytes of a connection, after both ends have proved themselves.

Arguments: a seed, how many bytes are changed, and the purpose of the connection of rank 1 that leads through a relay,
`control` or `data`. Each rank says whether its sums were right, or which error it got; a sum that is wrong ends it with
code 9.
"""

import struct
import sys
from typing import Any

from ringtune.errors import RingtuneError
from ringtune.meeting.rendezvous import mesh
from tests.integration.plain_rank import allreduce, join, say
from tests.integration.relays import Relay

STEPS = 60
PASSED_BYTES = 4_000
"""The changes lie within so many bytes of one direction."""
WRONG = 9
RARE = 1234.56789
"""A number whose bytes are found by chance nowhere."""


class _Channel:
    """Stands for a proved connection that leads through a relay."""

    def __init__(self, descriptor: int, tls: Any) -> None:
        self.tls = tls
        self._descriptor = descriptor
        if tls is not None:
            tls.move_to(descriptor)

    def detach(self) -> int:
        """Hand the descriptor over."""
        return self._descriptor


def tamper(seed: int, changes: int, purpose: str) -> Relay:
    """Have this rank's connection of a purpose lead through a relay."""
    open_channel = vars(mesh)["open_channel"]
    relay = Relay(seed, changes, within_bytes=PASSED_BYTES, text=struct.pack("d", RARE))

    def open_channel_by_relay(to: Any, *arguments: Any) -> Any:
        channel = open_channel(to, *arguments)
        if to.purpose != purpose:
            return channel
        say(f"the {purpose} connection leads through a relay")
        return _Channel(relay.between(channel.detach()), channel.tls)

    vars(mesh)["open_channel"] = open_channel_by_relay
    return relay


def main() -> None:
    """Sum, and compare."""
    relay = tamper(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
    rank: int | None = None
    try:
        world = join()
        rank = world.rank
        for step in range(STEPS):
            own = [float(step + index) * (rank + 1) for index in range(5)] + [RARE] * 20
            found = allreduce(world, f"tensor.{step % 3}", own)
            expected = [float(step + index) * 3 for index in range(5)] + [2 * RARE] * 20
            if expected != found:
                say(f"rank {rank}: WRONG in step {step}: {found} instead of {expected}")
                raise SystemExit(WRONG)
        say(f"rank {rank}: all sums are right")
        if relay.seen:
            say(f"rank {rank}'s numbers can be read on the way")
        world.shutdown()
    except RingtuneError as error:
        say(f"rank {rank}: {type(error).__name__}: {error}")
        raise SystemExit(3) from error


main()
