# SPDX-License-Identifier: Apache-2.0
"""Location of a process: its host, its network and that one's addresses; and the address where several can meet."""

import ipaddress
import json
from collections.abc import Sequence
from dataclasses import dataclass

from .address import LOOPBACK, Address
from .channel import ChannelError, read_json
from .interfaces import meeting_address, own_networks, route_address
from .place import host_identity, network_identity

MAX_IDENTITY_CHARACTERS = 200  # limit of a host's or a network's identity; ours have 60
MAX_ADDRESSES = 256  # limit of one site; a host of many containers has a bridge for each network of theirs


@dataclass(frozen=True)
class Site:
    """Location of a rank.

    Attributes:
        host: Identity of its host.
        network: Identity of its network namespace.
        addresses: Addresses of that namespace as `ADDRESS/PREFIX`, the best first.
    """

    host: str
    network: str
    addresses: tuple[str, ...]

    def to_text(self) -> str:
        """Return the site as text, for a channel."""
        return json.dumps([self.host, self.network, list(self.addresses)])

    @classmethod
    def from_text(cls, text: str) -> "Site":
        """Return the site that a text describes.

        Raises:
            ChannelError: If it describes none.
        """
        parts = read_json(text) if isinstance(text, str) else None
        if not isinstance(parts, list) or len(parts) != 3 or not isinstance(parts[2], list):
            raise ChannelError("a site is a host, a network and a list of addresses")
        host, network, addresses = parts
        if not all(isinstance(name, str) and len(name) <= MAX_IDENTITY_CHARACTERS for name in (host, network)):
            raise ChannelError(f"a host or a network is no text of at most {MAX_IDENTITY_CHARACTERS} characters")
        if len(addresses) > MAX_ADDRESSES or not all(map(_is_address, addresses)):
            raise ChannelError(f"a site's addresses are no list of at most {MAX_ADDRESSES} ADDRESS/PREFIX of IPv4")
        return cls(host, network, tuple(addresses))


def own_site(towards: str = "") -> Site:
    """Return this process's site.

    Args:
        towards: A host whose interface is preferred, or an address of this host's own; empty for none.

    Raises:
        ConfigError: If `/proc` is not mounted, or there is no way to that host.
    """
    networks = own_networks()
    preferred = route_address(towards) if towards else ""
    networks.sort(key=lambda network: network.partition("/")[0] != preferred)
    return Site(host_identity(), network_identity(), tuple(networks))


def meeting_place(sites: Sequence[Site], chosen: str = "") -> Address:
    """Return where rank 0 should listen, at a port of the kernel's choice, so that all ranks reach it.

    Args:
        sites: Every rank's, rank 0's first.
        chosen: Address of rank 0's host that leads to the others as far as is known; empty, or loopback, lets the
            networks decide.

    Raises:
        ConfigError: If there is no such address.
    """
    if all(site.host == sites[0].host for site in sites):
        return Address.fresh_unix()
    if all(site.network == sites[0].network for site in sites):
        return Address("tcp", LOOPBACK)
    if chosen and not ipaddress.ip_address(chosen).is_loopback:
        return Address("tcp", chosen)
    others = [site.addresses for site in sites[1:] if site.network != sites[0].network]
    return Address("tcp", meeting_address(sites[0].addresses, others))


def _is_address(text: object) -> bool:
    try:
        return isinstance(text, str) and bool(ipaddress.IPv4Interface(text))
    except ValueError:
        return False
