# SPDX-License-Identifier: Apache-2.0
"""Tests of the fit of latency and bandwidth."""

import numpy as np
import pytest

from ringtune.tuner.priors.cost_model import EngineCosts, fitted_costs
from ringtune.tuner.priors.cost_model.costs import UNKNOWN_BYTE_STD, fitted_call_costs
from ringtune.tuner.sample import MAD_TO_STD

SIZES = [1 << power for power in range(10, 25, 2)]


def test_the_constants_behind_exact_times_are_found() -> None:
    """Over four orders of magnitude, where absolute errors would see the largest sizes alone."""
    call = fitted_call_costs(SIZES, [7e-6 + 0.15e-9 * size for size in SIZES])

    assert call.call_s == pytest.approx(7e-6, rel=1e-6)
    assert call.byte_s == pytest.approx(0.15e-9, rel=1e-6)


def test_noise_of_a_tenth_moves_them_by_little() -> None:
    """Each to within a fifth, in any of twenty draws."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        noisy = [(7e-6 + 0.15e-9 * size) * float(np.exp(rng.normal(0.0, 0.1))) for size in SIZES]
        call = fitted_call_costs(SIZES, noisy)
        assert call.call_s == pytest.approx(7e-6, rel=0.2)
        assert call.byte_s == pytest.approx(0.15e-9, rel=0.2)


def test_sizes_that_are_off_do_not_bend_the_others() -> None:
    """A pause in the first call, and a bucket that lets middle sizes pass in half the time."""
    seconds = [7e-6 + 0.15e-9 * size for size in SIZES]
    seconds[0], seconds[3], seconds[4] = 5 * seconds[0], 0.5 * seconds[3], 0.5 * seconds[4]

    call = fitted_call_costs(SIZES, seconds)

    assert call.call_s == pytest.approx(7e-6, rel=0.1)
    assert call.byte_s == pytest.approx(0.15e-9, rel=0.05)


@pytest.mark.parametrize("seconds", [[5e-6] * 8, [1e-9 * size for size in SIZES], list(reversed(range(1, 9)))])
def test_neither_is_ever_nothing_or_below(seconds: list[float]) -> None:
    """Constant times, times without latency, times that fall with the size."""
    call = fitted_call_costs(SIZES, seconds)

    assert call.call_s > 0
    assert call.byte_s > 0
    assert 0 < call.byte_std <= UNKNOWN_BYTE_STD


@pytest.mark.parametrize("largest_share", [0.9, 0.5, 0.3])
def test_they_are_off_by_what_is_said(largest_share: float) -> None:
    """However much of the largest call its bytes take; where it is less, less is known of them."""
    rng = np.random.default_rng(1)
    byte_s = largest_share / (1 - largest_share) / SIZES[-1]
    seconds = [[(1.0 + byte_s * size) * float(np.exp(rng.normal(0.0, 0.1))) for size in SIZES] for _ in range(200)]
    calls = [fitted_call_costs(SIZES, of_one) for of_one in seconds]

    stds_off = [abs(float(np.log(call.byte_s / byte_s))) / call.byte_std for call in calls]

    assert MAD_TO_STD * float(np.median(stds_off)) == pytest.approx(1.0, rel=0.35)


def test_where_latency_hides_the_bytes_nothing_is_known_of_them() -> None:
    """Sixteen megabytes take as long as a thousand bytes."""
    hidden, plain = (fitted_call_costs(SIZES, [1.0 + byte_s * size for size in SIZES]) for byte_s in (1e-12, 1e-5))

    assert hidden.byte_std == pytest.approx(UNKNOWN_BYTE_STD, rel=0.01)
    assert plain.byte_std < 0.1


def test_one_size_is_an_error_that_says_so() -> None:
    """Two unknowns, one equation."""
    with pytest.raises(ValueError, match="two sizes are needed"):
        fitted_call_costs([1024, 1024], [1e-6, 2e-6])


def test_between_hosts_the_constants_are_those_of_the_link() -> None:
    """A ring of four makes six steps, each of a quarter of the message."""
    seconds = [6 * (50e-6 + size / 4 * 8e-9) for size in SIZES]

    costs = fitted_costs(SIZES, seconds, [2, 2], is_hierarchical=False)

    assert costs.link.latency_s == pytest.approx(50e-6, rel=1e-6)
    assert costs.link.byte_s == pytest.approx(8e-9, rel=1e-6)
    assert costs.call_s == EngineCosts().call_s


def test_on_a_fast_link_a_ring_tells_less_of_what_all_ranks_get_together() -> None:
    """There the work of the one rank that sends may take as long as the wire."""
    slow, fast = (
        fitted_costs(SIZES, [6 * (50e-6 + size / 4 * byte_s) for size in SIZES], [2, 2], is_hierarchical=False).link
        for byte_s in (80e-9, 0.5e-9)
    )

    assert slow.contention == pytest.approx(1.0, abs=0.02)
    assert float(fast.contention) < 0.5


def test_counterparts_that_were_timed_tell_what_all_ranks_get_together() -> None:
    """Counterparts exchange the whole message on any link, and of a small one the blocks as they are, in one round."""
    link = fitted_costs(SIZES, [50e-6 + 1.5 * size * 0.5e-9 for size in SIZES], [2] * 4, is_hierarchical=True).link

    assert link.latency_s == pytest.approx(50e-6, rel=1e-6)
    assert link.byte_s == pytest.approx(0.5e-9, rel=1e-6)
    assert link.contention == 1.0


@pytest.mark.parametrize("is_hierarchical", [False, True])
def test_on_one_host_the_links_stay_as_they_are(is_hierarchical: bool) -> None:
    """There is none."""
    costs = fitted_costs(SIZES, [7e-6 + 0.15e-9 * size for size in SIZES], [4], is_hierarchical=is_hierarchical)

    assert costs.call_s == pytest.approx(7e-6, rel=1e-6)
    assert costs.link == EngineCosts().link
