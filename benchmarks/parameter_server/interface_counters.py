# SPDX-License-Identifier: Apache-2.0
"""Counters of a host's network interface, as the kernel shows them to every process of that network."""

from pathlib import Path

COUNTERS = Path("/proc/net/dev")
_RECEIVED, _SENT = 0, 8


def interface_bytes(interface: str) -> tuple[int, int]:
    """Return the bytes that an interface has sent and received, headers included."""
    return bytes_in(COUNTERS.read_text(encoding="ascii"), interface)


def bytes_in(text: str, interface: str) -> tuple[int, int]:
    """Return an interface's bytes sent and received, out of the text of /proc/net/dev.

    Raises:
        LookupError: If there is no such interface.
    """
    for line in text.splitlines():
        name, _, values = line.partition(":")
        if name.strip() == interface:
            counters = values.split()
            return int(counters[_SENT]), int(counters[_RECEIVED])
    raise LookupError(f"there is no interface {interface!r} in this network")
