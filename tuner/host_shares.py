# SPDX-License-Identifier: Apache-2.0
"""Traffic of hosts whose links differ in rate, as the engine's `skew` shares it: see `host_shares.h` of the engine.

| symbol | meaning |
|---|---|
| p | number of hosts |
| r | rate of a host's link; the fastest has 1 |
| s | share of a host: of N bytes it sends and receives N (1 + s (p - 2)) |
| t | time in which every host with a share moves its bytes, for N = 1 |
"""

from collections.abc import Sequence

EVEN_RATE = 0.85
"""Rate from which the engine takes a host for as fast as the fastest; `kEvenPermille` of host_shares.cpp."""


def are_uneven(rates: Sequence[float]) -> bool:
    """Return whether skewed shares differ from even ones.

    Args:
        rates: Rate of each host's link, in any unit.
    """
    return len(rates) > 2 and min(rates) < EVEN_RATE * max(rates)


def balanced_shares(rates: Sequence[float]) -> tuple[float, ...]:
    """Return each host's share of a block, s: together 1.

    Args:
        rates: Rate of each host's link, in any unit; at least three hosts.
    """
    traffic = skewed_traffic(rates)
    return tuple(max(0.0, traffic * rate - 1.0) / (len(rates) - 2) for rate in _counted(rates))


def skewed_traffic(rates: Sequence[float]) -> float:
    """Return the bytes that a host with the fastest link sends, and receives, for a message of one byte: t.

    Args:
        rates: Rate of each host's link, in any unit; at least three hosts.
    """
    with_share = sorted(_counted(rates), reverse=True)
    while (len(rates) - 2 + len(with_share)) * with_share[-1] < sum(with_share):
        with_share.pop()
    return (len(rates) - 2 + len(with_share)) / sum(with_share)


def skewed_time(rates: Sequence[float]) -> float:
    """Return the time of the slowest link for a message of one byte with skewed shares, in that of the fastest link.

    Args:
        rates: Rate of each host's link, in any unit; at least three hosts.
    """
    hosts, fastest = len(rates), max(rates)
    shares = zip(balanced_shares(rates), rates, strict=True)
    return max((1.0 + share * (hosts - 2)) * fastest / rate for share, rate in shares)


def skewed_turn_time(rates: Sequence[float]) -> float:
    """Return the same without overlap: a host without a share first only sends, then only receives.

    Args:
        rates: Rate of each host's link, in any unit; at least three hosts.
    """
    hosts, fastest = len(rates), max(rates)
    shares = zip(balanced_shares(rates), rates, strict=True)
    return 2.0 * max(max(1.0 - share, share * (hosts - 1)) * fastest / rate for share, rate in shares)


def even_time(rates: Sequence[float]) -> float:
    """Return the time of the slowest link with even shares, with overlap or without.

    Args:
        rates: Rate of each host's link, in any unit.
    """
    return 2.0 * (len(rates) - 1) / len(rates) * max(rates) / min(rates)


def _counted(rates: Sequence[float]) -> tuple[float, ...]:
    """Return the rates that shares follow from, as shares of the fastest: one that is nearly as fast counts as fast."""
    return tuple(1.0 if rate >= EVEN_RATE * max(rates) else rate / max(rates) for rate in rates)
