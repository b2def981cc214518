# SPDX-License-Identifier: Apache-2.0
"""Tests of negotiation: near the measured times of the engine's own coordinator, and growing as these do."""

import pytest

from ringtune.tuner.simulator import Cluster, SimulatedMachine
from ringtune.tuner.simulator.negotiation import Negotiation
from tests.unit.tuner.simulator.jobs import hosts_of

TENSORS = 161


def of(hosts: int, ranks: int, *, has_cache: bool = True) -> Negotiation:
    """Return the control plane of so many hosts."""
    return Negotiation(SimulatedMachine(), hosts_of(hosts, ranks), has_cache)


def round_ms(negotiation: Negotiation, tensors: int) -> float:
    """Return a whole round, from the request to the response."""
    return (
        negotiation.request_ms(tensors)
        + negotiation.way_to_coordinator_ms(tensors)
        + negotiation.answer_ms(tensors)
        + negotiation.way_back_ms(tensors, 1)
    )


@pytest.mark.parametrize(("hosts", "ranks", "us"), [(1, 2, 18), (1, 8, 30), (8, 8, 64), (64, 8, 332), (512, 8, 2746)])
def test_rank_0_works_as_long_as_measured_for_known_tensors(hosts: int, ranks: int, us: float) -> None:
    """Within 20 % of docs/performance.md, "How negotiation grows"."""
    assert us == pytest.approx(1e3 * of(hosts, ranks).answer_ms(TENSORS), rel=0.2)


@pytest.mark.parametrize(("hosts", "ranks", "us"), [(1, 2, 87), (2, 8, 452), (16, 8, 4013), (128, 8, 30929)])
def test_rank_0_works_as_long_as_measured_for_named_tensors(hosts: int, ranks: int, us: float) -> None:
    """Within 20 % of the second table there."""
    assert us == pytest.approx(1e3 * of(hosts, ranks, has_cache=False).answer_ms(TENSORS), rel=0.2)


def test_without_the_cache_negotiation_costs_more_with_more_tensors_and_ranks() -> None:
    """The cache's saving grows with tensors and with ranks."""

    def saved_ms(hosts: int, tensors: int) -> float:
        with_cache, without = of(hosts, 8), of(hosts, 8, has_cache=False)
        return round_ms(without, tensors) - round_ms(with_cache, tensors)

    assert 0 < saved_ms(2, 10) < saved_ms(2, 100) < saved_ms(16, 100) < saved_ms(64, 1000)


@pytest.mark.parametrize("has_cache", [True, False])
def test_a_round_takes_longer_with_every_host(has_cache: bool) -> None:
    """The network adds to a round from the second host on, then rank 0's work."""
    times = [round_ms(of(hosts, 4, has_cache=has_cache), TENSORS) for hosts in (1, 2, 3, 8, 100, 1000)]

    assert sorted(times) == times
    assert len(set(times)) == len(times)


def test_names_take_their_time_on_a_slow_link() -> None:
    """85 bytes for each tensor of each rank come in at rank 0's host, and of each tensor go out to each host."""
    machine, cluster = SimulatedMachine(), hosts_of(3, 4, "1mbit")
    with_cache, without = (Negotiation(machine, cluster, has_cache) for has_cache in (True, False))
    names_ms = TENSORS * 85 / (cluster.link.bytes_per_s * machine.link_payload_share) * 1e3

    inbound_ms = without.way_to_coordinator_ms(TENSORS) - with_cache.way_to_coordinator_ms(TENSORS)
    outbound_ms = without.way_back_ms(TENSORS, 1) - with_cache.way_back_ms(TENSORS, 1)

    assert 2 * 4 * names_ms == pytest.approx(inbound_ms, rel=0.01)
    assert 2 * names_ms == pytest.approx(outbound_ms)


def test_a_single_host_sends_nothing_over_its_link() -> None:
    """The link's speed is without effect there."""
    slow, fast = (
        Negotiation(SimulatedMachine(), Cluster(1, 2, 2, hosts_of(1, 2, link).link), True)
        for link in ("1mbit", "1tbit")
    )

    assert round_ms(slow, TENSORS) == round_ms(fast, TENSORS)
