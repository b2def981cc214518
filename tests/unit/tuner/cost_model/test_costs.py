# SPDX-License-Identifier: Apache-2.0
"""Tests of the fit of latency and bandwidth."""

import numpy as np
import pytest

from ringtune.tuner.cost_model import EngineCosts, fitted_costs
from ringtune.tuner.cost_model.costs import fitted_call_costs

SIZES = [1 << power for power in range(10, 25, 2)]


def test_the_constants_behind_exact_times_are_found() -> None:
    """Over four orders of magnitude, where absolute errors would see the largest sizes alone."""
    call_s, byte_s = fitted_call_costs(SIZES, [7e-6 + 0.15e-9 * size for size in SIZES])

    assert call_s == pytest.approx(7e-6, rel=1e-6)
    assert byte_s == pytest.approx(0.15e-9, rel=1e-6)


def test_noise_of_a_tenth_moves_them_by_little() -> None:
    """Each to within a fifth, in any of twenty draws."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        noisy = [(7e-6 + 0.15e-9 * size) * float(np.exp(rng.normal(0.0, 0.1))) for size in SIZES]
        call_s, byte_s = fitted_call_costs(SIZES, noisy)
        assert call_s == pytest.approx(7e-6, rel=0.2)
        assert byte_s == pytest.approx(0.15e-9, rel=0.2)


def test_sizes_that_are_off_do_not_bend_the_others() -> None:
    """A pause in the first call, and a bucket that lets middle sizes pass in half the time."""
    seconds = [7e-6 + 0.15e-9 * size for size in SIZES]
    seconds[0], seconds[3], seconds[4] = 5 * seconds[0], 0.5 * seconds[3], 0.5 * seconds[4]

    call_s, byte_s = fitted_call_costs(SIZES, seconds)

    assert call_s == pytest.approx(7e-6, rel=0.1)
    assert byte_s == pytest.approx(0.15e-9, rel=0.05)


@pytest.mark.parametrize("seconds", [[5e-6] * 8, [1e-9 * size for size in SIZES], list(reversed(range(1, 9)))])
def test_neither_is_ever_nothing_or_below(seconds: list[float]) -> None:
    """Constant times, times without latency, times that fall with the size."""
    assert min(fitted_call_costs(SIZES, seconds)) > 0


def test_one_size_is_an_error_that_says_so() -> None:
    """Two unknowns, one equation."""
    with pytest.raises(ValueError, match="two sizes are needed"):
        fitted_call_costs([1024, 1024], [1e-6, 2e-6])


def test_between_hosts_the_constants_are_those_of_the_link() -> None:
    """A ring of four makes six steps, each of a quarter of the message."""
    seconds = [6 * (50e-6 + size / 4 * 8e-9) for size in SIZES]

    costs = fitted_costs(SIZES, seconds, ring_size=4)

    assert costs.link.latency_s == pytest.approx(50e-6, rel=1e-6)
    assert costs.link.byte_s == pytest.approx(8e-9, rel=1e-6)
    assert costs.call_s == EngineCosts().call_s


def test_on_a_fast_link_a_ring_tells_less_of_what_all_ranks_get_together() -> None:
    """There the work of the one rank that sends may take as long as the wire."""
    slow, fast = (
        fitted_costs(SIZES, [6 * (50e-6 + size / 4 * byte_s) for size in SIZES], ring_size=4).link
        for byte_s in (80e-9, 0.5e-9)
    )

    assert slow.together == pytest.approx(1.0, abs=0.02)
    assert float(fast.together) < 0.5


def test_on_one_host_the_links_stay_as_they_are() -> None:
    """There is none."""
    costs = fitted_costs(SIZES, [7e-6 + 0.15e-9 * size for size in SIZES], ring_size=1)

    assert costs.call_s == pytest.approx(7e-6, rel=1e-6)
    assert costs.link == EngineCosts().link
