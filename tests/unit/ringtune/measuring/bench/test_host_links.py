# SPDX-License-Identifier: Apache-2.0
"""Limits of a link between hosts."""

import pytest

from ringtune.measuring.bench.host_links import HostLinks


def test_headers_are_not_payload() -> None:
    """A full Ethernet frame of 1514 bytes has 1448 bytes of TCP's payload."""
    assert pytest.approx(125e6 * 1448 / 1514) == HostLinks(4, 2, 10**9).payload_bytes_per_s


def test_reducing_before_sending_saves_traffic() -> None:
    """A ring of 4 ranks sends each byte over the link 1.5 times, two hosts that reduce first send it once."""
    wire = HostLinks(4, 2, 10**9)

    assert pytest.approx(1.5 * 16e6 / wire.payload_bytes_per_s * 1e6) == wire.ring_us(16_000_000)
    assert pytest.approx(16e6 / wire.payload_bytes_per_s * 1e6) == wire.hierarchical_us(16_000_000)


def test_with_a_rank_per_host_both_are_the_same() -> None:
    """A host with one rank has no reduction inside it."""
    wire = HostLinks(3, 3, 10**8)

    assert wire.ring_us(4096) == wire.hierarchical_us(4096)
