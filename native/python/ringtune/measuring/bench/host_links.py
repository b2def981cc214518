# SPDX-License-Identifier: Apache-2.0
"""Limit that the wire between hosts sets: the time in which a host's link carries an allreduce's bytes.

A link carries frames, of which headers are a part: the limit counts the payload alone. Confirmations, which TCP sends
the other way, and all work beside the wire are left out: this is a lower bound on the time.
"""

from dataclasses import dataclass

from .network import DELAYED_MTU_BYTES, MTU_BYTES

_HEADER_BYTES = 20 + 20 + 12  # IPv4, TCP, its timestamps
_ETHERNET_BYTES = 14  # header that the shaped link counts beside the packet


@dataclass(frozen=True)
class HostLinks:
    """The links of hosts with the same number of ranks each.

    Attributes:
        ranks: Number of ranks of all hosts.
        hosts: Number of hosts.
        rate_bits_per_s: Rate of each host's link, in each direction.
        delay_ms: Time from one host to another, which a limit of bytes leaves out.
    """

    ranks: int
    hosts: int
    rate_bits_per_s: int
    delay_ms: float = 0.0

    @property
    def payload_bytes_per_s(self) -> float:
        """Payload's share of the rate, in full frames."""
        mtu_bytes = DELAYED_MTU_BYTES if self.delay_ms else MTU_BYTES
        share = (mtu_bytes - _HEADER_BYTES) / (mtu_bytes + _ETHERNET_BYTES)
        return self.rate_bits_per_s / 8 * share

    def ring_us(self, size_bytes: int) -> float:
        """Return microseconds for a flat ring of all ranks, one of which sends to the next host."""
        return self._us(2 * (self.ranks - 1) / self.ranks * size_bytes)

    def hierarchical_us(self, size_bytes: int) -> float:
        """Return microseconds where a host reduces before it sends: no allreduce sends less."""
        return self._us(2 * (self.hosts - 1) / self.hosts * size_bytes)

    def _us(self, sent_bytes: float) -> float:
        return sent_bytes / self.payload_bytes_per_s * 1e6
