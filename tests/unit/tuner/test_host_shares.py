# SPDX-License-Identifier: Apache-2.0
"""Tests of shares by the rates of links: known cases, and properties for any rates."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtune.tuner.host_shares import (
    EVEN_RATE,
    are_uneven,
    balanced_shares,
    even_time,
    skewed_time,
    skewed_traffic,
    skewed_turn_time,
)

RATES = st.lists(st.floats(0.01, 1.0), min_size=3, max_size=8)


@pytest.mark.parametrize(("hosts", "gain"), [(3, 4 / 3), (4, 3 / 2)])
def test_a_host_with_half_the_rate_has_no_share(hosts: int, gain: float) -> None:
    """The message passes its link once in each direction; with even shares, 2 (p - 1) / p of it does."""
    rates = [1.0] * (hosts - 1) + [0.5]

    assert (0.0, 2.0) == (balanced_shares(rates)[-1], skewed_time(rates))
    assert gain == pytest.approx(even_time(rates) / skewed_time(rates))


@given(RATES)
def test_skewed_shares_are_a_whole_and_no_slower_than_even_ones(rates: list[float]) -> None:
    """Shares are one together; rates that count as equal may cost the difference between them."""
    shares = balanced_shares(rates)

    assert 1.0 == pytest.approx(sum(shares))
    assert min(shares) >= 0.0
    assert skewed_time(rates) <= even_time(rates) / EVEN_RATE
    assert skewed_traffic(rates) == pytest.approx(1 + max(shares) * (len(rates) - 2))


def test_without_overlap_a_host_without_a_share_uses_half_of_its_link() -> None:
    """The host first sends the message and then receives it, which takes longer than even shares do."""
    rates = [1.0, 1.0, 0.5]

    assert 4.0 == skewed_turn_time(rates)
    assert 8 / 3 == pytest.approx(even_time(rates))


@pytest.mark.parametrize(
    ("rates", "expected"), [((), False), ((1.0, 0.5), False), ((1.0, 0.9, 1.0), False), ((8.0, 6.0, 8.0), True)]
)
def test_links_are_uneven_between_three_hosts_that_differ(rates: tuple[float, ...], expected: bool) -> None:
    """Between two hosts shares change no traffic."""
    assert expected is are_uneven(rates)
