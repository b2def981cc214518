# SPDX-License-Identifier: Apache-2.0
"""Sums while somebody on the way changes bytes of the control connection, after both ends have proved themselves.

Arguments: a seed, and how many bytes are changed. Rank 1's connection leads through a relay. Each rank says whether its
sums were right, or which error it got; a sum that is wrong ends it with code 9.
"""

import random
import socket
import sys
import threading
from typing import Any

from ringtune.errors import RingtuneError
from ringtune.meeting.rendezvous import mesh
from tests.integration.plain_rank import allreduce, join, say

STEPS = 60
PASSED_BYTES = 4_000
"""The changes lie within so many bytes of one direction."""
WRONG = 9


class Relay:
    """Two sockets between two ends; changes bytes of what passes."""

    def __init__(self, seed: int, changes: int) -> None:
        dice = random.Random(seed)
        self._masks = [
            {dice.randrange(PASSED_BYTES): 1 << dice.randrange(8) for _ in range(dice.randrange(changes + 1))}
            for _ in range(2)
        ]

    def between(self, other_end: int) -> int:
        """Put the relay before a connection; returns the descriptor to use in its place."""
        outer = socket.socket(fileno=other_end)
        outer.setblocking(True)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            own = socket.create_connection(listener.getsockname())
            inner, _ = listener.accept()
        for number, (source, target) in enumerate(((inner, outer), (outer, inner))):
            arguments = (source, target, self._masks[number])
            threading.Thread(target=self._pass_on, args=arguments, daemon=True).start()
        own.setblocking(False)
        return own.detach()

    def _pass_on(self, source: socket.socket, target: socket.socket, masks: dict[int, int]) -> None:
        passed = 0
        try:
            while data := bytearray(source.recv(1 << 16)):
                for place, mask in masks.items():
                    if passed <= place < passed + len(data):
                        data[place - passed] ^= mask
                passed += len(data)
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            return


class _Channel:
    """Stands for a proved connection that leads through a relay."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def detach(self) -> int:
        """Hand the descriptor over."""
        return self._descriptor


def tamper(seed: int, changes: int) -> None:
    """Have this rank's control connection lead through a relay."""
    open_channel = vars(mesh)["open_channel"]

    def open_channel_by_relay(to: Any, *arguments: Any) -> Any:
        channel = open_channel(to, *arguments)
        if to.purpose != mesh.CONTROL:
            return channel
        say("the control connection leads through a relay")
        return _Channel(Relay(seed, changes).between(channel.detach()))

    vars(mesh)["open_channel"] = open_channel_by_relay


def main() -> None:
    """Sum, and compare."""
    tamper(int(sys.argv[1]), int(sys.argv[2]))
    rank: int | None = None
    try:
        world = join()
        rank = world.rank
        for step in range(STEPS):
            own = [float(step + index) * (rank + 1) for index in range(5)]
            found = allreduce(world, f"tensor.{step % 3}", own)
            expected = [float(step + index) * 3 for index in range(5)]
            if expected != found:
                say(f"rank {rank}: WRONG in step {step}: {found} instead of {expected}")
                raise SystemExit(WRONG)
        say(f"rank {rank}: all sums are right")
        world.shutdown()
    except RingtuneError as error:
        say(f"rank {rank}: {type(error).__name__}: {error}")
        raise SystemExit(3) from error


main()
