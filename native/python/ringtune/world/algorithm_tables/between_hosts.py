# SPDX-License-Identifier: Apache-2.0
"""Candidates between hosts: predicted from a latency and a rate, so that only those that are near need measuring.

A call at a delay of 20 ms takes so long that there is no time to try everything. A few calls give latency and rate of
the slowest links (the model of Hockney 1994); each algorithm's rounds and bytes follow from the number of *members*:
hosts where it goes host by host, else ranks.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from types import MappingProxyType
from typing import NamedTuple

from ringtune.tuner.engine_facts import ENGINE_FACTS

from .measurement import AlgorithmCandidate, Measured, MeasurementPlan, SizeClass, Timer, measure_table, sizes_for
from .table import HIERARCHICAL, RING, CallTime, TableRow

WHOLE = "hierarchical_whole"
DOUBLING = "recursive_doubling"
HALVING = "halving_doubling"
TREE = "tree"
_KIB = 2**10
BY_HOST = "hierarchical_"
"""Opening of the names of algorithms that go host by host."""

CHUNKS = (64 * _KIB, 256 * _KIB, 512 * _KIB, 2**20, 2 * 2**20, 4 * 2**20)
CHUNKED = (HIERARCHICAL, RING)
"""Algorithms for which chunks are compared: the others cut a message to bound their memory alone."""
NEAR = 2.0
"""Ratio of predicted times up to which the second best candidate is measured against the best one."""
PROBE_SIZES = (_KIB, 64 * _KIB, 1024 * _KIB)
"""Messages that show latency and rate, bytes: the largest exceeds the burst that a shaped link passes unshaped."""
PROBE_SHARE = 24
"""A probe's expected call may take this part of the time that there is: a few are made."""
MESSAGE_S = 10e-6
"""Processor time to send one message and receive another, seconds; see `LinkCosts` of the cost model."""
PROBES = 3
BATCH_S = 0.02
"""Seconds of a batch of calls: the ranks meet before and after it, which costs a latency and its noise each."""
MAX_BATCH = 20
_LEAST_S = 1e-9
_LEAST_BYTE_S = 0.4e-9  # a message is copied at both ends; see `LinkCosts.copied_byte_s` of the cost model


@dataclass(frozen=True)
class LinkTimes:
    """Latency and rate between hosts, as an allreduce meets them.

    Attributes:
        latency_s: Seconds from one member to another for an empty message.
        byte_s: Seconds per byte and direction of a host's link.
    """

    latency_s: float
    byte_s: float

    @classmethod
    def of_doubling(
        cls, small: CallTime, large: CallTime, algorithm: str, ranks_per_host: Sequence[int]
    ) -> "LinkTimes":
        """Return the link times that follow from two allreduces by recursive doubling.

        Args:
            small: The shorter one.
            large: The longer one.
            algorithm: Its name, host by host or between all ranks.
            ranks_per_host: Number of ranks on each host.
        """
        way, crossing = _way(algorithm, large.size_bytes, ranks_per_host), _crossing(algorithm, ranks_per_host)
        more_s, more_bytes = large.call_s - small.call_s, large.size_bytes - small.size_bytes
        byte_s = max(_LEAST_BYTE_S, more_s / more_bytes / way.rounds / crossing)
        return cls(max(_LEAST_S, small.call_s / way.rounds - byte_s * crossing * small.size_bytes), byte_s)


@dataclass(frozen=True)
class HostsToMeasure:
    """Hosts of a job, and the algorithms that may reduce between them.

    Attributes:
        defaults: The compiled-in rows.
        names: Algorithms that a table may name under the job's config.
        ranks_per_host: Number of ranks on each host.
        base: The algorithm that a cost model is fitted to: `hierarchical` or `ring`.
    """

    defaults: tuple[TableRow, ...]
    names: tuple[str, ...]
    ranks_per_host: tuple[int, ...]
    base: str

    @property
    def chunk_bytes(self) -> int:
        """The compiled-in chunk."""
        return self.defaults[0].chunk_bytes


def measure_between_hosts(
    timer: Timer, hosts: HostsToMeasure, limit_s: float, clock: Callable[[], float] = time.monotonic
) -> Measured:
    """Measure latency and rate, predict, and compare the best two of each size where they are near.

    Args:
        timer: Timer that runs the candidates.
        hosts: Hosts, and the candidates.
        limit_s: Seconds that all of it may take; see `measure_table`. A few calls are made whatever they take.
        clock: A steady clock in seconds.
    """
    end_s = clock() + limit_s
    probing = _Probing(timer, hosts, limit_s / PROBE_SHARE)
    links = probing.links()
    calls = probing.base_calls(links)
    plan = plan_between_hosts(hosts, links)
    rows, _ = measure_table(timer, plan, end_s - clock(), clock)
    return Measured(rows, calls)


def plan_between_hosts(hosts: HostsToMeasure, links: LinkTimes) -> MeasurementPlan:
    """Return the best two candidates of each size by prediction, of which the second one must be near."""
    classes, predicted = [], []
    for size in sizes_for(hosts.ranks_per_host):
        best, *others = sorted(
            _different(hosts, size), key=lambda name: predicted_s(name, size, links, hosts.ranks_per_host)
        )
        near_s = NEAR * predicted_s(best, size, links, hosts.ranks_per_host)
        near = [name for name in others[:1] if predicted_s(name, size, links, hosts.ranks_per_host) <= near_s]
        chunks = [AlgorithmCandidate(best, chunk) for chunk in _chunks(best, size, hosts)]
        candidates = [AlgorithmCandidate(name, hosts.chunk_bytes) for name in (best, *near)]
        classes.append(SizeClass(size, tuple(dict.fromkeys((*candidates, *chunks)))))
        predicted.append(TableRow(size, best, hosts.chunk_bytes))
    predicted[-1] = predicted[-1]._replace(max_bytes=None)
    kept = tuple(row for row in hosts.defaults if row.algorithm not in hosts.names)
    return MeasurementPlan(tuple(predicted), tuple(classes), kept, BATCH_S)


def _different(hosts: HostsToMeasure, size_bytes: int) -> list[str]:
    """Return the algorithms that differ at a size."""
    is_whole = _way(HIERARCHICAL, size_bytes, hosts.ranks_per_host) == _whole(len(hosts.ranks_per_host))
    comparable = comparable_algorithms(hosts.names, hosts.ranks_per_host)
    return [name for name in comparable if not (is_whole and name == WHOLE)]


def _chunks(algorithm: str, size_bytes: int, hosts: HostsToMeasure) -> list[int]:
    # A ring's chunk is what each rank sends at once, so that as many as there are ranks are on their way.
    in_flight = sum(hosts.ranks_per_host) if algorithm == RING else 1
    return [chunk for chunk in CHUNKS if algorithm in CHUNKED and chunk < size_bytes // in_flight]


@dataclass
class _Probing:
    timer: Timer
    hosts: HostsToMeasure
    call_limit_s: float
    """Longest expected call."""

    def links(self) -> LinkTimes:
        algorithm = probe_of(self.hosts.names)
        small, *larger = PROBE_SIZES
        calls = [self._call(algorithm, small)]
        for size in larger:
            if len(calls) > 1 and calls[-1].call_s * size / calls[-1].size_bytes > self.call_limit_s:
                break
            calls.append(self._call(algorithm, size))
        return LinkTimes.of_doubling(calls[0], calls[-1], algorithm, self.hosts.ranks_per_host)

    def base_calls(self, links: LinkTimes) -> tuple[CallTime, ...]:
        base, ranks_per_host = self.hosts.base, self.hosts.ranks_per_host
        short = [s for s in PROBE_SIZES if predicted_s(base, s, links, ranks_per_host) <= self.call_limit_s]
        return tuple(self._call(base, size) for size in short)

    def _call(self, algorithm: str, size_bytes: int) -> CallTime:
        """Return the median of a few batches, after a call in which connections widen their windows."""
        chunk_bytes = self.hosts.chunk_bytes
        first_s = self.timer.time_allreduce(size_bytes, algorithm, chunk_bytes, 1)
        calls = max(1, min(MAX_BATCH, int(BATCH_S / first_s)))
        times_s = [self.timer.time_allreduce(size_bytes, algorithm, chunk_bytes, calls) for _ in range(PROBES)]
        return CallTime(size_bytes, median(times_s) / calls)


class Way(NamedTuple):
    """Course of an allreduce.

    Attributes:
        rounds: Latencies that follow each other.
        messages: Messages that a member sends, and receives.
        sent: Bytes over a member's link, in units of the message.
    """

    rounds: int
    messages: int
    sent: float


def comparable_algorithms(names: Sequence[str], ranks_per_host: Sequence[int]) -> list[str]:
    """Return the algorithms that are worth a comparison.

    Where every host has one rank, an algorithm is the same host by host and between all ranks. The ring is left out
    there: it alone adds in another order, and a measurement should change speed, not results.

    Args:
        names: Algorithms that a table may name.
        ranks_per_host: Number of ranks on each host.
    """
    if max(ranks_per_host) > 1:
        return list(names)
    return [name for name in names if name != RING and name.removeprefix(BY_HOST) not in {DOUBLING, HALVING, TREE}] + [
        name for name in names if name in {DOUBLING, HALVING, TREE}
    ]


def probe_of(names: Sequence[str]) -> str:
    """Return the algorithm that shows latency and rate: recursive doubling, whose rounds are alike."""
    return next(name for name in names if name.removeprefix(BY_HOST) == DOUBLING)


def predicted_s(algorithm: str, size_bytes: int, links: LinkTimes, ranks_per_host: Sequence[int]) -> float:
    """Return the seconds that an allreduce should take.

    Args:
        algorithm: Name of an algorithm between hosts.
        size_bytes: Size of the message.
        links: Latency and rate.
        ranks_per_host: Number of ranks on each host.
    """
    way = _way(algorithm, size_bytes, ranks_per_host)
    sent_bytes = _crossing(algorithm, ranks_per_host) * way.sent * size_bytes
    return way.rounds * links.latency_s + (way.messages - way.rounds) * MESSAGE_S + sent_bytes * links.byte_s


def _crossing(algorithm: str, ranks_per_host: Sequence[int]) -> int:
    """Return how many messages share a host's link: those of its ranks, unless they have parts of one or take turns."""
    return 1 if algorithm.startswith(HIERARCHICAL) or algorithm == RING else max(ranks_per_host)


def _way(algorithm: str, size_bytes: int, ranks_per_host: Sequence[int]) -> Way:
    hosts = len(ranks_per_host)
    if algorithm == HIERARCHICAL:
        is_whole = size_bytes <= ENGINE_FACTS.whole_block_max_bytes * min(ranks_per_host)
        return _whole(hosts) if is_whole else _shares(hosts)
    members = hosts if algorithm.startswith(BY_HOST) else sum(ranks_per_host)
    return _WAYS[algorithm.removeprefix(BY_HOST)](members)


def _levels(members: int) -> int:
    """Return log2 of the members that take part in pairs: the largest power of two."""
    return members.bit_length() - 1


def _folds(members: int) -> int:
    """Return the rounds for those that do not: one before, one after."""
    return 0 if members == 1 << _levels(members) else 2


def _whole(members: int) -> Way:
    return Way(1, members - 1, members - 1)


def _shares(members: int) -> Way:
    return _whole(2) if members == 2 else Way(2, 2 * (members - 1), 2 * (members - 1) / members)


def _ring(members: int) -> Way:
    return Way(2 * (members - 1), 2 * (members - 1), 2 * (members - 1) / members)


def _doubling(members: int) -> Way:
    rounds = _levels(members) + _folds(members)
    return Way(rounds, rounds, rounds)


def _halving(members: int) -> Way:
    rounds, paired = 2 * _levels(members) + _folds(members), 1 << _levels(members)
    return Way(rounds, rounds, 2 * (paired - 1) / paired + _folds(members))


def _tree(members: int) -> Way:
    rounds = 2 * _levels(members) + _folds(members)
    return Way(rounds, rounds, rounds)  # the link of the member at the top carries as much


_WAYS: Mapping[str, Callable[[int], Way]] = MappingProxyType(
    {"whole": _whole, DOUBLING: _doubling, HALVING: _halving, TREE: _tree, RING: _ring}
)
