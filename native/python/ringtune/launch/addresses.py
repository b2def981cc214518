# SPDX-License-Identifier: Apache-2.0
"""Recognition of names that mean this machine. Asks the resolver and the kernel; sends no data."""

import socket
from collections.abc import Sequence

from ringtune.errors import ConfigError


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


def refuse_same_machine(names: Sequence[str]) -> None:
    """Raise `ConfigError` if several names of hosts mean this machine.

    Args:
        names: Those that do.
    """
    if len(names) > 1:
        raise ConfigError(f"{' and '.join(names)} are both this machine; name it once, with the sum of the slots")


def _is_own(family: socket.AddressFamily, address: tuple[str | int, ...] | tuple[int, bytes]) -> bool:
    """Return whether the address can be bound, which the kernel allows for this machine's own only."""
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address[0], 0, *address[2:]))
        except OSError:
            return False
    return True
