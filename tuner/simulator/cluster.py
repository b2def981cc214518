# SPDX-License-Identifier: Apache-2.0
"""Where a simulated job runs: hosts, the ranks and cores on each, and the link of each host."""

import math
import re
from dataclasses import dataclass

from ringtune.errors import ConfigError

MAX_HOSTS = 65_536
MAX_RANKS_PER_HOST = 256
"""As in the engine's segment of shared memory."""
MIN_BITS_PER_S = 1e6
MAX_BITS_PER_S = 1e13
DEFAULT_LATENCY_US = 25.0
"""One way through two network cards, their kernels and a switch of a data centre."""
_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*(k|m|g|t)bit(?:/s)?")
_FACTORS = (("k", 1e3), ("m", 1e6), ("g", 1e9), ("t", 1e12))


@dataclass(frozen=True)
class Link:
    """A host's link: what it sends and, at the same time, receives.

    Attributes:
        bytes_per_s: Its rate, headers included.
        latency_us: Until the first byte is there, one way.
    """

    bytes_per_s: float
    latency_us: float = DEFAULT_LATENCY_US

    def __post_init__(self) -> None:
        """Refuse a rate that is not above zero and a latency below it."""
        if not (math.isfinite(self.bytes_per_s) and self.bytes_per_s > 0):
            raise ConfigError(f"a link of {self.bytes_per_s!r} bytes per second is not possible; give one above 0")
        if not (math.isfinite(self.latency_us) and self.latency_us >= 0):
            raise ConfigError(f"a latency of {self.latency_us!r} us is not possible; give one of at least 0")

    @property
    def name(self) -> str:
        """The rate in words that `parse_link` reads, such as 25gbit."""
        bits = 8.0 * self.bytes_per_s
        unit, factor = next(((u, f) for u, f in reversed(_FACTORS) if bits >= f), _FACTORS[0])
        return f"{bits / factor:.6g}{unit}bit"


def parse_link(text: str, latency_us: float = DEFAULT_LATENCY_US) -> Link:
    """Return the link of a rate in words.

    Args:
        text: Such as `25gbit`, `100mbit` or `2.5gbit`.
        latency_us: One way.

    Raises:
        ConfigError: If it says no rate from 1mbit to 10tbit.
    """
    match = _RATE.fullmatch(text.strip().lower())
    bits = float(match[1]) * dict(_FACTORS)[match[2]] if match else 0.0
    if not MIN_BITS_PER_S <= bits <= MAX_BITS_PER_S:
        raise ConfigError(f"the link {text!r} is no rate from 1mbit to 10tbit; give one such as 100mbit or 25gbit")
    return Link(bits / 8.0, latency_us)


@dataclass(frozen=True)
class Cluster:
    """Hosts that are all alike.

    Attributes:
        hosts: How many.
        ranks_per_host: On each.
        cores_per_host: On each, for computing and communicating.
        link: Of each host; meaningless for a single one.
    """

    hosts: int = 1
    ranks_per_host: int = 2
    cores_per_host: int = 2
    link: Link = Link(1.25e8)

    def __post_init__(self) -> None:
        """Refuse counts that cannot be."""
        bounds = (
            ("hosts", self.hosts, MAX_HOSTS),
            ("ranks_per_host", self.ranks_per_host, MAX_RANKS_PER_HOST),
            ("cores_per_host", self.cores_per_host, MAX_HOSTS),
        )
        for name, value, largest in bounds:
            if not 1 <= value <= largest:
                raise ConfigError(f"{name}={value} is not possible; allowed: 1 to {largest}")

    @property
    def world_size(self) -> int:
        """Ranks of all hosts."""
        return self.hosts * self.ranks_per_host

    @property
    def layout(self) -> tuple[int, ...]:
        """Ranks on each host."""
        return (self.ranks_per_host,) * self.hosts

    def threads_per_core(self, threads_per_rank: float) -> float:
        """Return how many running threads share a core, at least 1: how much longer each one's work takes."""
        return max(1.0, self.ranks_per_host * threads_per_rank / self.cores_per_host)
