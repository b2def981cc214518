# SPDX-License-Identifier: Apache-2.0
"""Ports on loopback for programs with a port as an option: free, and likely to be so when they come to it."""

import random
import socket
from contextlib import ExitStack, suppress

PORTS = range(12_000, 32_000)
"""Below those that the kernel gives to clients: any connection could take one of these meanwhile."""


def free_ports(count: int) -> int:
    """Return the first of so many ports in a row that were free a moment ago."""
    while True:
        first = random.randrange(PORTS.start, PORTS.stop - count)
        with ExitStack() as stack, suppress(OSError):
            for port in range(first, first + count):
                stack.enter_context(socket.create_server(("127.0.0.1", port)))
            return first


def free_port() -> int:
    """Return a port that was free a moment ago."""
    return free_ports(1)
