# SPDX-License-Identifier: Apache-2.0
"""Cluster of a simulated job: hosts, the ranks and cores on each, and each host's link."""

import math
import re
from dataclasses import dataclass

from ringtune.errors import ConfigError

MAX_HOSTS = 65_536
MAX_RANKS_PER_HOST = 256
"""Maximum number of ranks on a host, limited by the engine's shared memory segment."""
MIN_BITS_PER_S = 1e6
MAX_BITS_PER_S = 1e13
DEFAULT_LATENCY_US = 25.0
"""One-way latency through two network cards, their kernels and a data centre switch, microseconds."""
_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*(k|m|g|t)bit(?:/s)?")
_FACTORS = (("k", 1e3), ("m", 1e6), ("g", 1e9), ("t", 1e12))


@dataclass(frozen=True)
class Link:
    """Full-duplex link of a host.

    Attributes:
        bytes_per_s: Rate in each direction, headers included.
        latency_us: One-way latency of the first byte, microseconds.
    """

    bytes_per_s: float
    latency_us: float = DEFAULT_LATENCY_US

    def __post_init__(self) -> None:
        """Refuse a rate that is not positive, or a negative latency."""
        if not (math.isfinite(self.bytes_per_s) and self.bytes_per_s > 0):
            raise ConfigError(f"a link of {self.bytes_per_s!r} bytes per second is not possible; give one above 0")
        if not (math.isfinite(self.latency_us) and self.latency_us >= 0):
            raise ConfigError(f"a latency of {self.latency_us!r} us is not possible; give one of at least 0")

    @property
    def name(self) -> str:
        """Rate in the syntax of `parse_link`, such as 25gbit."""
        bits = 8.0 * self.bytes_per_s
        unit, factor = next(((u, f) for u, f in reversed(_FACTORS) if bits >= f), _FACTORS[0])
        return f"{bits / factor:.6g}{unit}bit"


def parse_link(text: str, latency_us: float = DEFAULT_LATENCY_US) -> Link:
    """Return the link for a rate as text.

    Args:
        text: Rate such as `25gbit`, `100mbit` or `2.5gbit`.
        latency_us: One-way latency, microseconds.

    Raises:
        ConfigError: If the text is not a rate from 1mbit to 10tbit.
    """
    match = _RATE.fullmatch(text.strip().lower())
    bits = float(match[1]) * dict(_FACTORS)[match[2]] if match else 0.0
    if not MIN_BITS_PER_S <= bits <= MAX_BITS_PER_S:
        raise ConfigError(f"the link {text!r} is no rate from 1mbit to 10tbit; give one such as 100mbit or 25gbit")
    return Link(bits / 8.0, latency_us)


@dataclass(frozen=True)
class Cluster:
    """Cluster of identical hosts, of which the last may have a slower link.

    Attributes:
        hosts: Number of hosts.
        ranks_per_host: Number of ranks on each host.
        cores_per_host: Number of cores of each host, for computing and communicating.
        link: Link of each host; unused with a single host.
        slow_link: Rate of the last host's link as a share of the others'.
    """

    hosts: int = 1
    ranks_per_host: int = 2
    cores_per_host: int = 2
    link: Link = Link(1.25e8)
    slow_link: float = 1.0

    def __post_init__(self) -> None:
        """Refuse counts out of range."""
        bounds = (
            ("hosts", self.hosts, MAX_HOSTS),
            ("ranks_per_host", self.ranks_per_host, MAX_RANKS_PER_HOST),
            ("cores_per_host", self.cores_per_host, MAX_HOSTS),
        )
        for name, value, largest in bounds:
            if not 1 <= value <= largest:
                raise ConfigError(f"{name}={value} is not possible; allowed: 1 to {largest}")
        if not 0.0 < self.slow_link <= 1.0:
            raise ConfigError(f"slow_link={self.slow_link!r} is not possible; give a share above 0 and up to 1")

    @property
    def world_size(self) -> int:
        """Total number of ranks."""
        return self.hosts * self.ranks_per_host

    @property
    def layout(self) -> tuple[int, ...]:
        """Number of ranks on each host."""
        return (self.ranks_per_host,) * self.hosts

    @property
    def round_trip_us(self) -> float:
        """Round trip between two hosts, microseconds; 0 with a single host."""
        return 2 * self.link.latency_us if self.hosts > 1 else 0.0

    @property
    def link_rates(self) -> tuple[float, ...]:
        """Rate of each host's link as a share of the fastest."""
        return (1.0,) * (self.hosts - 1) + (self.slow_link,)

    def threads_per_core(self, threads_per_rank: float) -> float:
        """Return the running threads per core, at least 1: the factor by which each thread's work takes longer."""
        return max(1.0, self.ranks_per_host * threads_per_rank / self.cores_per_host)
