# SPDX-License-Identifier: Apache-2.0
"""Candidates between hosts: their prediction, and their measurement on networks of any delay and rate."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from ringtune import _engine
from ringtune.world.algorithm_tables.between_hosts import (
    NEAR,
    HostsToMeasure,
    LinkTimes,
    comparable_algorithms,
    measure_between_hosts,
    plan_between_hosts,
    predicted_s,
    probe_of,
)
from ringtune.world.algorithm_tables.measurement import LIMIT_S
from ringtune.world.algorithm_tables.table import CallTime, TableRow

KIB = 2**10
MIB = 2**20
SLOW = LinkTimes(latency_s=5e-3, byte_s=8e-9)


def hosts_of(ranks_per_host: list[int], *, is_hierarchical: bool = False) -> HostsToMeasure:
    """Return the candidates and rows to measure in a layout."""
    hosts = [host for host, ranks in enumerate(ranks_per_host) for _ in range(ranks)]
    by_host = is_hierarchical or max(ranks_per_host) == 1
    return HostsToMeasure(
        tuple(TableRow(*row) for row in _engine.default_algorithm_table(hosts)),
        tuple(_engine.choices_of_auto(hosts, is_hierarchical)),
        tuple(ranks_per_host),
        "hierarchical" if by_host else "ring",
    )


@pytest.mark.parametrize("ranks_per_host", [[1, 1, 1], [2, 2], [3, 1]])
def test_each_algorithm_between_hosts_has_a_prediction(ranks_per_host: list[int]) -> None:
    """A row of the engine's registry without one could not be measured."""
    names = _engine.choices_of_auto(
        [host for host, ranks in enumerate(ranks_per_host) for _ in range(ranks)], is_hierarchical=True
    )

    assert all(predicted_s(name, KIB, SLOW, ranks_per_host) > 0 for name in names)


@dataclass
class SimulatedNetwork:
    """Calls that take the predicted time, times `factor`, and a clock that they move."""

    links: LinkTimes
    ranks_per_host: list[int]
    factor: Callable[[str, int, int], float] = lambda _name, _size, _chunk: 1.0
    now_s: float = 0.0
    timed: list[tuple[int, str, int]] = field(default_factory=list)

    def clock(self) -> float:
        """Return the time."""
        return self.now_s

    def call_s(self, size_bytes: int, algorithm: str, chunk_bytes: int) -> float:
        """Return the seconds of a call."""
        factor = self.factor(algorithm, size_bytes, chunk_bytes)
        return factor * predicted_s(algorithm, size_bytes, self.links, self.ranks_per_host)

    def time_allreduce(self, size_bytes: int, algorithm: str, chunk_bytes: int, calls: int) -> float:
        """Run a batch, after the call that the engine does not time."""
        self.timed.append((size_bytes, algorithm, chunk_bytes))
        taken_s = calls * self.call_s(size_bytes, algorithm, chunk_bytes)
        self.now_s += taken_s + self.call_s(min(size_bytes, 64 * KIB), algorithm, chunk_bytes)
        return taken_s


def chosen(network: SimulatedNetwork, *, is_hierarchical: bool = False) -> list[TableRow]:
    """Return the rows that are measured on a network."""
    hosts = hosts_of(network.ranks_per_host, is_hierarchical=is_hierarchical)
    return list(measure_between_hosts(network, hosts, LIMIT_S, network.clock).rows)


def names_at(rows: list[TableRow], size: int) -> str:
    """Return the algorithm of the first row that holds a message."""
    return next(row.algorithm for row in rows if row.max_bytes is None or size <= row.max_bytes)


@pytest.mark.parametrize(
    ("algorithm", "rounds"),
    [
        ("hierarchical_whole", 1),
        ("hierarchical", 2),
        ("recursive_doubling", 3),
        ("halving_doubling", 6),
        ("tree", 6),
        ("ring", 14),
    ],
)
def test_rounds_of_eight_hosts(algorithm: str, rounds: int) -> None:
    """Without bytes and work an allreduce takes its rounds' latencies."""
    links = LinkTimes(latency_s=1.0, byte_s=1e-15)

    assert rounds == round(predicted_s(algorithm, 256 * KIB, links, [1] * 8))


@pytest.mark.parametrize(("hosts", "rounds"), [(2, 1), (3, 3), (4, 2), (5, 4), (7, 4), (9, 5), (16, 4)])
def test_members_beyond_a_power_of_two_cost_a_round_before_and_after(hosts: int, rounds: int) -> None:
    """Recursive doubling folds them in."""
    assert rounds == round(predicted_s("recursive_doubling", KIB, LinkTimes(1.0, 1e-15), [1] * hosts))


@pytest.mark.parametrize("ranks_per_host", [[1, 1], [1] * 8, [2, 2, 2], [3, 1, 2, 2, 2]])
@pytest.mark.parametrize("is_hierarchical", [False, True])
def test_latency_and_rate_follow_from_two_calls(ranks_per_host: list[int], is_hierarchical: bool) -> None:
    """A network that behaves as predicted gives its own constants back."""
    algorithm = probe_of(hosts_of(ranks_per_host, is_hierarchical=is_hierarchical).names)
    small, large = (CallTime(size, predicted_s(algorithm, size, SLOW, ranks_per_host)) for size in (KIB, MIB))

    found = LinkTimes.of_doubling(small, large, algorithm, ranks_per_host)

    assert pytest.approx(SLOW.latency_s) == found.latency_s
    assert pytest.approx(SLOW.byte_s) == found.byte_s


def test_calls_that_contradict_each_other_give_a_prediction_all_the_same() -> None:
    """A pause may make the shorter message the slower one."""
    found = LinkTimes.of_doubling(CallTime(KIB, 0.1), CallTime(MIB, 0.01), "recursive_doubling", [1] * 4)

    assert found.latency_s > 0
    assert found.byte_s > 0


def test_with_one_rank_per_host_the_ring_is_no_candidate() -> None:
    """The ring alone adds in another order: a table that may name it would change results."""
    names = comparable_algorithms(hosts_of([1] * 4).names, [1] * 4)

    assert {"hierarchical", "hierarchical_whole", "recursive_doubling", "halving_doubling", "tree"} == set(names)
    assert "ring" in comparable_algorithms(hosts_of([2, 2]).names, [2, 2])


def test_the_second_best_is_measured_where_it_is_near() -> None:
    """At the others prediction decides."""
    plan = plan_between_hosts(hosts_of([1] * 8), SLOW)

    for size_class in plan.classes:
        names = {name for name, _ in size_class.candidates}
        times = sorted(predicted_s(name, size_class.max_bytes, SLOW, [1] * 8) for name in names)
        assert len(names) <= 2
        assert times[-1] <= NEAR * times[0]
    assert {1, 2} == {len({name for name, _ in size_class.candidates}) for size_class in plan.classes}


@pytest.mark.parametrize("delay_ms", [0.05, 0.5, 5.0, 20.0])
@pytest.mark.parametrize("hosts", [2, 3, 8, 64])
def test_what_a_network_is_predicted_to_do_best_is_used(delay_ms: float, hosts: int) -> None:
    """Each size has the algorithm that takes the least, if measurements agree with the prediction."""
    links = LinkTimes(delay_ms * 1e-3, 8e-9)
    rows = chosen(SimulatedNetwork(links, [1] * hosts))

    for size in (KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 16 * MIB):
        candidates = comparable_algorithms(hosts_of([1] * hosts).names, [1] * hosts)
        best_s = min(predicted_s(name, size, links, [1] * hosts) for name in candidates)
        assert predicted_s(names_at(rows, size), size, links, [1] * hosts) <= best_s * 1.1


def test_a_longer_delay_moves_the_threshold_to_larger_messages() -> None:
    """No constant says where the short messages end."""
    short, long = (
        [size for size in (64 * KIB, 256 * KIB, MIB) if names_at(chosen(network), size) == "hierarchical_whole"]
        for network in (SimulatedNetwork(LinkTimes(delay, 8e-9), [1] * 8) for delay in (0.5e-3, 20e-3))
    )

    assert len(long) > len(short)


def test_a_measurement_overrules_a_prediction_that_is_near() -> None:
    """The second best candidate wins the sizes at which it is measured to be faster."""

    def whole_is_slow(name: str, size: int, _chunk: int) -> float:
        return 3.0 if name == "hierarchical_whole" and size > 16 * KIB else 1.0

    rows = chosen(SimulatedNetwork(LinkTimes(0.5e-3, 8e-9), [1] * 4, whole_is_slow))

    assert "hierarchical_whole" not in {row.algorithm for row in rows if row.max_bytes is None or row.max_bytes > KIB}


@pytest.mark.parametrize("delay_ms", [0.01, 1.0, 20.0, 100.0])
@pytest.mark.parametrize("bits_per_s", [1e6, 1e8, 1e10])
def test_the_limit_holds_on_networks_of_any_delay_and_rate(delay_ms: float, bits_per_s: float) -> None:
    """Beyond the limit there are no more than the few calls that probe; a table serves every message."""
    network = SimulatedNetwork(LinkTimes(delay_ms * 1e-3, 8 / bits_per_s), [1] * 8)

    rows = chosen(network)

    probes_s = 8 * sum(network.call_s(size, name, MIB) for size in (KIB, 64 * KIB) for name in ("recursive_doubling",))
    assert network.now_s <= LIMIT_S + probes_s
    assert None is rows[-1].max_bytes


@pytest.mark.parametrize("is_hierarchical", [False, True])
def test_rows_of_the_other_kind_stay(is_hierarchical: bool) -> None:
    """The tuner may switch to it while the job runs."""
    rows = chosen(SimulatedNetwork(SLOW, [2, 2]), is_hierarchical=is_hierarchical)

    kinds = [row.algorithm.startswith("hierarchical") for row in rows if row.max_bytes is None]
    assert {True, False} == set(kinds)


def test_chunks_are_tried_only_where_they_differ() -> None:
    """A ring has a chunk of each rank on its way, so a message of one chunk per rank moves alike."""
    plan = plan_between_hosts(hosts_of([2, 2]), LinkTimes(1e-6, 1e-7))
    chunks = {c.max_bytes: {chunk for name, chunk in c.candidates if name == "ring"} for c in plan.classes}

    assert {MIB} >= chunks[256 * KIB]
    assert {MIB, 64 * KIB, 256 * KIB, 512 * KIB, 2 * MIB} == chunks[16 * MIB]


def test_the_cost_models_calls_are_of_the_algorithm_that_it_knows() -> None:
    """Calls of two sizes are there for latency and rate."""
    network = SimulatedNetwork(SLOW, [1] * 4)

    measured = measure_between_hosts(network, hosts_of([1] * 4), LIMIT_S, network.clock)

    assert [KIB, 64 * KIB, MIB] == [call.size_bytes for call in measured.calls]
    assert [network.call_s(call.size_bytes, "hierarchical", MIB) for call in measured.calls] == pytest.approx(
        [call.call_s for call in measured.calls]
    )
