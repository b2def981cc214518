# SPDX-License-Identifier: Apache-2.0
"""Agreement of ranks that have a channel already, a store or an MPI, on the address and the key of their meeting.

Every rank says on which host and network it is; rank 0 chooses an address that all can reach, listens there, and
tells address and job key. Who can read that channel can join the job: it is what is trusted.
"""

import json
import secrets
import socket
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from ringtune.errors import ConfigError
from ringtune.rendezvous.address import LOOPBACK, Address, bound_address, listen
from ringtune.rendezvous.interfaces import meeting_address, own_networks, route_address
from ringtune.rendezvous.place import Place, host_identity, network_identity

KEY_BYTES = 32


class RankChannel(Protocol):
    """A way for ranks to hear each other before they have met. Both calls are made by every rank, once, in order."""

    def gather(self, text: str) -> Sequence[str]:
        """Give this rank's text; on rank 0 return all ranks' in their order, elsewhere anything."""

    def spread(self, text: str) -> str:
        """Return rank 0's text; what the others give is ignored."""


@dataclass(frozen=True)
class _Site:
    """Location of a rank: its host, its network namespace, and that one's addresses, the best first."""

    host: str
    network: str
    addresses: tuple[str, ...]

    def to_text(self) -> str:
        return json.dumps([self.host, self.network, list(self.addresses)])

    @classmethod
    def from_text(cls, text: str) -> "_Site":
        host, network, addresses = json.loads(text)
        return cls(str(host), str(network), tuple(str(address) for address in addresses))


def arrange(place: Place, exchange: RankChannel, towards: str = "") -> Place:
    """Return the place completed with address and job key, and on rank 0 with the open listener.

    Args:
        place: Without them.
        exchange: Channel between the ranks.
        towards: A host whose interface is preferred, such as the store's; empty for none.

    Raises:
        ConfigError: If rank 0 cannot listen where all could reach it; on every rank.
    """
    site = _Site(host_identity(), network_identity(), tuple(_addresses(towards)))
    texts = exchange.gather(site.to_text())
    if place.rank != 0:
        return _told(place, json.loads(exchange.spread("")))
    key = secrets.token_bytes(KEY_BYTES)
    try:
        listener = _listen_for([_Site.from_text(text) for text in texts])
    except ConfigError as error:
        exchange.spread(json.dumps({"failure": f"rank 0: {error}"}))
        raise
    address = bound_address(listener)
    try:
        exchange.spread(json.dumps({"address": str(address), "job_key": key.hex()}))
    except BaseException:
        listener.close()
        raise
    return replace(place, address=address, job_key=key, listener=listener)


def _told(place: Place, answer: dict[str, Any]) -> Place:
    if "failure" in answer:
        raise ConfigError(str(answer["failure"]))
    return replace(place, address=Address.parse(answer["address"]), job_key=bytes.fromhex(answer["job_key"]))


def _addresses(towards: str) -> list[str]:
    """Return this host's networks; the one that leads to a preferred host first, unless that is this host itself."""
    networks = own_networks()
    preferred = route_address(towards) if towards else ""
    return sorted(networks, key=lambda network: network.partition("/")[0] != preferred)


def _listen_for(sites: Sequence[_Site]) -> socket.socket:
    if all(site.host == sites[0].host for site in sites):
        return listen(Address.fresh_unix())
    if all(site.network == sites[0].network for site in sites):
        return listen(Address("tcp", LOOPBACK))
    others = [site.addresses for site in sites[1:] if site.network != sites[0].network]
    return listen(Address("tcp", meeting_address(sites[0].addresses, others)))
