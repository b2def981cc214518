# SPDX-License-Identifier: Apache-2.0
"""Tests of the times of allreduces: physical bounds, and the effect of chunks, ranks, hosts and crowded cores."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtune.tuner.simulator import Cluster, Link, SimulatedMachine
from ringtune.tuner.simulator.collectives import Task, allreduce_time
from ringtune.tuner.simulator.knobs import Algorithm
from tests.unit.tuner.simulator.jobs import MIB, hosts_of

KIB = 1024
INSIDE = (Algorithm.DIRECT, Algorithm.REGISTERED, Algorithm.REDUCE_SCATTER_ALLGATHER)
BETWEEN = (Algorithm.RING, Algorithm.HIERARCHICAL)
MACHINE = SimulatedMachine()


def time_ms(algorithm: Algorithm, cluster: Cluster, size: int, chunk: int = MIB, stretch: float = 1.0) -> float:
    """Return the time of one allreduce of data in no cache, milliseconds."""
    return allreduce_time(algorithm, Task(MACHINE, cluster, size, chunk, 1.0), stretch).total_ms


def wire_ms(cluster: Cluster, size: float) -> float:
    """Return the time in which a link carries the payload `size`."""
    return size / (cluster.link.bytes_per_s * MACHINE.link_payload_share) * 1e3


@pytest.mark.parametrize("algorithm", list(Algorithm))
def test_a_world_of_one_reduces_in_no_time(algorithm: Algorithm) -> None:
    """There is no other rank to reduce with."""
    assert 0.0 == time_ms(algorithm, Cluster(1, 1, 1), 64 * MIB)


@pytest.mark.parametrize(("hosts", "ranks"), [(2, 1), (2, 2), (4, 2), (8, 8)])
def test_a_large_ring_takes_what_the_wire_takes(hosts: int, ranks: int) -> None:
    """2 (n - 1) / n of the bytes over each link, within 5 %, never less."""
    cluster, size = hosts_of(hosts, ranks, "100mbit"), 1024 * MIB
    n = cluster.world_size
    bound = wire_ms(cluster, 2 * (n - 1) / n * size)

    taken = time_ms(Algorithm.RING, cluster, size)

    assert bound <= taken <= 1.05 * bound


@pytest.mark.parametrize(("hosts", "ranks"), [(2, 2), (4, 2), (8, 8)])
def test_a_large_hierarchical_allreduce_takes_what_the_wire_takes(hosts: int, ranks: int) -> None:
    """2 (h - 1) / h of the bytes over each link, within 5 %, never less."""
    cluster, size = hosts_of(hosts, ranks, "100mbit"), 1024 * MIB
    bound = wire_ms(cluster, 2 * (hosts - 1) / hosts * size)

    taken = time_ms(Algorithm.HIERARCHICAL, cluster, size)

    assert bound <= taken <= 1.05 * bound


@pytest.mark.parametrize(("hosts", "ranks", "link"), [(2, 2, "100mbit"), (2, 8, "1gbit"), (8, 4, "1gbit")])
@pytest.mark.parametrize("size", [256 * KIB, 4 * MIB, 64 * MIB])
def test_hierarchical_beats_the_ring_on_slow_links(hosts: int, ranks: int, link: str, size: int) -> None:
    """Several ranks per host: fewer bytes cross, in fewer turns."""
    cluster = hosts_of(hosts, ranks, link)

    assert time_ms(Algorithm.HIERARCHICAL, cluster, size) < time_ms(Algorithm.RING, cluster, size)


@pytest.mark.parametrize(("hosts", "rounds"), [(2, 1), (4, 2)])
def test_all_chunks_between_distant_hosts_wait_together(hosts: int, rounds: int) -> None:
    """At 20 ms 16 MiB are in flight: less than two waits of a block's rounds are added to wire and work."""
    cluster = replace(hosts_of(hosts, 1, "10gbit"), link=Link(1.25e9, 20_000.0))
    size = 8 * MIB
    near = time_ms(Algorithm.HIERARCHICAL, replace(cluster, link=Link(1.25e9, 50.0)), size, 256 * KIB)

    taken = time_ms(Algorithm.HIERARCHICAL, cluster, size, 256 * KIB)

    assert rounds * 20.0 <= taken < near + 2 * rounds * 20.0


@pytest.mark.parametrize("hosts", [3, 4])
def test_skewed_shares_are_as_much_faster_as_their_bytes_say(hosts: int) -> None:
    """A host with half the rate sends the message once if chunks are many; with even shares, 2 (p - 1) / p of it."""
    cluster = replace(hosts_of(hosts, 1, "100mbit"), slow_link=0.5)
    even = Task(MACHINE, cluster, 256 * MIB, MIB)

    ratio = (
        allreduce_time(Algorithm.HIERARCHICAL, even, 1.0).total_ms
        / allreduce_time(Algorithm.HIERARCHICAL, replace(even, is_skewed=True), 1.0).total_ms
    )

    gain = 2 * (hosts - 1) / hosts
    assert 0.98 * gain < ratio <= gain


@pytest.mark.parametrize("hosts", [2, 4])
def test_rounded_gradients_take_half_of_the_wires_time(hosts: int) -> None:
    """The link is the limit of these messages."""
    exact = Task(MACHINE, hosts_of(hosts, 1, "100mbit"), 256 * MIB, MIB)

    exact_ms, rounded_ms = (
        allreduce_time(Algorithm.HIERARCHICAL, task, 1.0).total_ms for task in (exact, replace(exact, is_rounded=True))
    )

    assert 1.95 < exact_ms / rounded_ms <= 2.0


def test_skewed_shares_lose_where_a_message_is_one_chunk() -> None:
    """The slow host's link is then used in one direction at a time."""
    cluster = replace(hosts_of(3, 1, "100mbit"), slow_link=0.5)
    even = Task(MACHINE, cluster, MIB, MIB)
    skewed = replace(even, is_skewed=True)

    even_ms, skewed_ms = (allreduce_time(Algorithm.HIERARCHICAL, task, 1.0).total_ms for task in (even, skewed))

    assert skewed_ms > even_ms


def test_memory_bounds_large_messages_of_a_host() -> None:
    """No data move faster than memory does: read and written once by every rank, at least."""
    cluster, size = Cluster(1, 8, 8), 256 * MIB

    for algorithm in INSIDE:
        bound = 8 * 2 * size / MACHINE.memory_bytes_per_s * 1e3
        assert time_ms(algorithm, cluster, size, 128 * KIB) >= bound


def test_registered_memory_is_quickest_and_posts_are_quickest_when_small() -> None:
    """The order of the compiled-in table: one synchronization less wins below, copies saved win above."""

    def order(size: int) -> list[Algorithm]:
        task = Task(MACHINE, Cluster(1, 4, 4), size, 128 * KIB)
        return sorted(INSIDE, key=lambda algorithm: allreduce_time(algorithm, task, 1.0).total_ms)

    assert Algorithm.DIRECT is order(256)[0]
    assert [Algorithm.REGISTERED, Algorithm.REDUCE_SCATTER_ALLGATHER, Algorithm.DIRECT] == order(4 * MIB)


def test_chunks_have_a_best_size() -> None:
    """Small ones synchronize often, large ones leave the cores' caches."""
    task = Task(MACHINE, Cluster(1, 2, 2), 4 * MIB, 0)
    sizes = [16 * KIB, 128 * KIB, 4 * MIB]

    times = [
        allreduce_time(Algorithm.REDUCE_SCATTER_ALLGATHER, replace(task, chunk_bytes=size), 1.0).total_ms
        for size in sizes
    ]

    assert times[1] < times[0]
    assert times[1] < times[2]


def test_chunks_that_leave_no_depth_run_in_turn() -> None:
    """Above 2 MiB the stages hold too few chunks for the network and the host to work at once."""
    cluster = hosts_of(2, 2, "10gbit")

    assert time_ms(Algorithm.HIERARCHICAL, cluster, 64 * MIB, 4 * MIB) > 1.2 * time_ms(
        Algorithm.HIERARCHICAL, cluster, 64 * MIB, 2 * MIB
    )


def test_a_single_chunk_has_nothing_to_overlap_with() -> None:
    """A single chunk is staged, sent and collected in turn; the wire hides the rest of many."""
    cluster = hosts_of(2, 2, "1gbit")

    def beyond_wire_ms(size: int) -> float:
        return time_ms(Algorithm.HIERARCHICAL, cluster, size) - wire_ms(cluster, size)

    work_ms = allreduce_time(Algorithm.HIERARCHICAL, Task(MACHINE, cluster, MIB, MIB, 1.0), 1.0).work_ms
    assert beyond_wire_ms(MIB) > work_ms
    assert beyond_wire_ms(64 * MIB) == pytest.approx(beyond_wire_ms(MIB), rel=0.1)


@pytest.mark.parametrize("algorithm", [Algorithm.DIRECT, Algorithm.REDUCE_SCATTER_ALLGATHER])
def test_crowded_cores_cost_more_than_their_share(algorithm: Algorithm) -> None:
    """Two threads to a core: twice the work, and each synchronization waits for the other's turn."""
    cluster, size = Cluster(1, 2, 2), 16 * KIB

    assert time_ms(algorithm, cluster, size, stretch=2.0) > 2.0 * time_ms(algorithm, cluster, size)


sizes = st.integers(4, 512 * MIB)
chunks = st.integers(4, 1024).map(lambda number: 4 * KIB * number)
rates = st.floats(1e6, 1e11)


@given(
    st.sampled_from(BETWEEN), sizes, chunks, st.tuples(rates, rates), st.tuples(st.integers(2, 64), st.integers(1, 16))
)
def test_a_faster_link_is_never_slower(
    algorithm: Algorithm, size: int, chunk: int, speeds: tuple[float, float], counts: tuple[int, int]
) -> None:
    """A single allreduce of any size, chunk and world is never slower."""
    slow, fast = (Cluster(*counts, 64, Link(rate)) for rate in sorted(speeds))

    assert time_ms(algorithm, fast, size, chunk) <= time_ms(algorithm, slow, size, chunk) * (1 + 1e-12)


@given(
    st.sampled_from(INSIDE), sizes, chunks, st.tuples(st.floats(1e9, 1e12), st.floats(1e9, 1e12)), st.integers(2, 64)
)
def test_a_faster_memory_is_never_slower(
    algorithm: Algorithm, size: int, chunk: int, speeds: tuple[float, float], ranks: int
) -> None:
    """A single allreduce inside a host is never slower."""
    times = []
    for speed in sorted(speeds):
        task = Task(replace(MACHINE, memory_bytes_per_s=speed), Cluster(1, ranks, 64), size, chunk, 1.0)
        times.append(allreduce_time(algorithm, task, 1.0).total_ms)

    assert times[1] <= times[0]


@given(st.sampled_from(list(Algorithm)), sizes, chunks, st.integers(1, 16), st.floats(1.0, 8.0))
def test_work_is_part_of_the_time(algorithm: Algorithm, size: int, chunk: int, ranks: int, stretch: float) -> None:
    """A rank is busy for no longer than the allreduce takes; both are above zero."""
    cluster = hosts_of(4, ranks) if algorithm in BETWEEN else Cluster(1, ranks + 1, 8)

    taken = allreduce_time(algorithm, Task(MACHINE, cluster, size, chunk, 0.5), stretch)

    assert 0.0 < taken.work_ms <= taken.total_ms


@pytest.mark.parametrize("algorithm", BETWEEN)
@pytest.mark.parametrize("ranks", [1, 8])
def test_more_hosts_take_longer(algorithm: Algorithm, ranks: int) -> None:
    """A message of whole segments, doubling the hosts."""
    times = [time_ms(algorithm, hosts_of(hosts, ranks, "10gbit"), 1024 * MIB, 256 * KIB) for hosts in (2, 4, 8, 16, 32)]

    assert sorted(times) == times
