# SPDX-License-Identifier: Apache-2.0
"""Recognition of names that mean this machine. Asks the resolver and the kernel; sends nothing."""

import socket


def is_this_machine(host: str) -> bool:
    """Return whether a name or address is this machine's: localhost, its host name, or an address of its own.

    Args:
        host: Name or address; with `user@` in front it is never this machine, for another login is meant.
    """
    if "@" in host:
        return False
    if host.lower() in {"localhost", socket.gethostname().lower()}:
        return True
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError):  # a name that only ssh's configuration knows
        return False
    return any(_is_own(family, address) for family, _, _, _, address in found)


def _is_own(family: socket.AddressFamily, address: tuple[str | int, ...] | tuple[int, bytes]) -> bool:
    """Return whether the address can be bound, which the kernel allows for this machine's own only."""
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address[0], 0, *address[2:]))
        except OSError:
            return False
    return True
