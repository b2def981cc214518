# SPDX-License-Identifier: Apache-2.0
"""This host's network interfaces: which address leads to another host, and how fast the link says it is."""

import fcntl
import ipaddress
import socket
import struct
from collections.abc import Collection, Sequence
from pathlib import Path

from ringtune.errors import ConfigError

_SIOCGIFADDR = 0x8915
_SIOCGIFNETMASK = 0x891B
_NAME_BYTES = 15
_ROUTE_PORT = 9  # connecting a datagram socket sends nothing; the kernel only looks for the route
_DOCUMENTATION_HOST = "192.0.2.1"  # RFC 5737: nobody has it, so the default route leads there


def route_address(host: str) -> str:
    """Return this host's address on the interface that leads to another host.

    Args:
        host: Name or number of the other host, or of this one.

    Raises:
        ConfigError: If the name cannot be resolved or there is no route.
    """
    try:
        family, _, _, _, target = socket.getaddrinfo(host, _ROUTE_PORT, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as probe:
            probe.connect(target)
            return str(probe.getsockname()[0])
    except OSError as error:
        raise ConfigError(
            f"there is no way to host {host!r}: {error}; check its name and this host's network"
        ) from error


def own_networks(names: Collection[str] = ()) -> list[str]:
    """Return this host's IPv4 addresses as `ADDRESS/PREFIX`, the one of the default route first; loopback left out.

    Args:
        names: Interfaces to look at; empty for all.
    """
    known = [name for _, name in socket.if_nameindex() if not names or name in names]
    found = [network for name in known if (network := _network_of(name))]
    first = _default_address()
    return sorted(found, key=lambda network: network.partition("/")[0] != first)


def interface_address(names: Sequence[str]) -> str:
    """Return this host's IPv4 address on the first of some interfaces that has one; loopback counts.

    Args:
        names: Such as `eth0`.

    Raises:
        ConfigError: If there is no interface of a name, or none of them has an address.
    """
    known = [name for _, name in socket.if_nameindex()]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ConfigError(
            f"{', '.join(unknown)} is no network interface of this machine; it has {', '.join(known) or 'none'}"
        )
    found = [interface for name in names if (interface := _interface_of(name)) is not None]
    if not found:
        raise ConfigError(f"{', '.join(names)} has no IPv4 address; name a network interface that has one")
    return str(found[0].ip)


def meeting_address(own: Sequence[str], others: Sequence[Sequence[str]]) -> str:
    """Return which of this host's addresses all other hosts can reach.

    An address that another host has as well, as container bridges do, is not a way between the two.

    Args:
        own: This host's networks, as `own_networks` gives them.
        others: Each other host's.

    Raises:
        ConfigError: If there is none.
    """
    for network in own:
        if all(_shares(network, theirs) for theirs in others):
            return network.partition("/")[0]
    routed = [network.partition("/")[0] for network in own if network.partition("/")[0] == _default_address()]
    if not routed:
        raise ConfigError(
            f"rank 0's host, with {', '.join(own) or 'no network'}, shares no network with all other hosts "
            f"({'; '.join(', '.join(theirs) or 'none' for theirs in others)}) and has no default route; check the "
            "hosts' networks"
        )
    return routed[0]


def link_bits_per_s(address: str) -> int | None:
    """Return the speed that the interface with an address declares; None where it declares none."""
    for _, name in socket.if_nameindex():
        if _network_of(name).partition("/")[0] == address:
            try:
                megabits = int(Path(f"/sys/class/net/{name}/speed").read_text(encoding="ascii"))
            except (OSError, ValueError):
                return None
            return megabits * 10**6 if megabits > 0 else None
    return None


def _shares(network: str, theirs: Sequence[str]) -> bool:
    ours = ipaddress.ip_interface(network)
    interfaces = [ipaddress.ip_interface(other) for other in theirs]
    has_same = any(other.ip == ours.ip for other in interfaces)
    return not has_same and any(other.network == ours.network for other in interfaces)


def _default_address() -> str:
    try:
        return route_address(_DOCUMENTATION_HOST)
    except ConfigError:
        return ""


def _network_of(name: str) -> str:
    """Return an interface's IPv4 address as `ADDRESS/PREFIX`; empty for none, and for loopback."""
    interface = _interface_of(name)
    return "" if interface is None or interface.ip.is_loopback else str(interface)


def _interface_of(name: str) -> ipaddress.IPv4Interface | None:
    """Return an interface's IPv4 address and network; None where it has none."""
    request = struct.pack("256s", name.encode()[:_NAME_BYTES])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as probe:
        try:
            address, mask = (
                socket.inet_ntoa(fcntl.ioctl(probe.fileno(), code, request)[20:24])
                for code in (_SIOCGIFADDR, _SIOCGIFNETMASK)
            )
        except OSError:  # it has none
            return None
    return ipaddress.IPv4Interface(f"{address}/{mask}")
