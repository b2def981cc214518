# SPDX-License-Identifier: Apache-2.0
"""Summary of all rounds' rows for the table: medians over rounds, and ratios within rounds."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from statistics import median

from .paired_ratios import MIN_PAIRS, Ratio, paired_ratio

STAGED, REGISTERED = "staged", "registered"
"""The limit's ways: for arrays in ordinary memory, and for arrays that every rank can reach where they are."""


@dataclass(frozen=True)
class ResultRow:
    """A row that a contestant has printed for a subject, in one launch.

    Attributes:
        round: Number of the round.
        contestant: Contestant that has printed it.
        way: Way of reducing that was measured.
        workload: Name of the gradients' workload; empty for a single allreduce.
        bytes: Size of the allreduce, or of all gradients.
        ranks: Number of ranks.
        us_median: Microseconds per call, median over the launch's groups.
        us_p99: Their 99th percentile.
        hosts: Number of hosts.
        link_bits_per_s: Rate of each host's link; 0 where there is none.
    """

    round: int
    contestant: str
    way: str
    workload: str
    bytes: int
    ranks: int
    us_median: float
    us_p99: float
    hosts: int = 1
    link_bits_per_s: int = 0


@dataclass(frozen=True)
class PairedRatio:
    """A ratio of times within rounds.

    Attributes:
        median: Median over the rounds.
        interval: The same with its 95 % interval; None where there are too few rounds for one.
    """

    median: float
    interval: Ratio | None


@dataclass(frozen=True)
class Summary:
    """A way at a subject, over all rounds.

    Attributes:
        workload: Name of the gradients' workload; empty for a single allreduce.
        bytes: Size of the allreduce, or of all gradients.
        way: Way of reducing that was measured.
        us_median: Median over rounds of the launches' medians, in microseconds.
        us_p99: Median over rounds of the launches' 99th percentiles, in microseconds.
        to_best_peer: Its time ÷ that of each round's best peer; None where no peer was measured.
        to_limit: Its time ÷ the limit's of the same round and kind of memory; None for the limit itself.
    """

    workload: str
    bytes: int
    way: str
    us_median: float
    us_p99: float
    to_best_peer: PairedRatio | None
    to_limit: PairedRatio | None


def summarize(rows: Sequence[ResultRow], limit: str, peers: Collection[str]) -> list[Summary]:
    """Return summaries by workload and size; for each first the limit, then our layers, then the peers.

    Args:
        rows: Rows of all rounds; each way has one per round and subject.
        limit: The contestant that is the limit.
        peers: Those that are peers.
    """
    subjects = sorted({(row.workload, row.bytes) for row in rows})
    return [
        summary
        for subject in subjects
        for summary in _summaries([row for row in rows if (row.workload, row.bytes) == subject], limit, peers)
    ]


def _summaries(rows: Sequence[ResultRow], limit: str, peers: Collection[str]) -> list[Summary]:
    """Return those of one subject's rows."""
    best_peer = _by_round(row for row in rows if row.contestant in peers)
    limits = {
        memory: _by_round(row for row in rows if (row.contestant, row.way) == (limit, memory))
        for memory in (STAGED, REGISTERED)
    }
    by_way: dict[tuple[bool, bool, str, str], list[ResultRow]] = {}
    for row in rows:
        place = (row.contestant != limit, row.contestant in peers, row.contestant, row.way)
        by_way.setdefault(place, []).append(row)
    summaries = []
    for (is_compared, _, _, way), own in sorted(by_way.items(), key=itemgetter(0)):
        memory = REGISTERED if way.endswith(REGISTERED) else STAGED
        summaries.append(_summary(own, best_peer, limits[memory] if is_compared else {}))
    return summaries


def _summary(own: Sequence[ResultRow], best_peer: Mapping[int, float], limit: Mapping[int, float]) -> Summary:
    return Summary(
        workload=own[0].workload,
        bytes=own[0].bytes,
        way=own[0].way,
        us_median=median(row.us_median for row in own),
        us_p99=median(row.us_p99 for row in own),
        to_best_peer=_compare(_by_round(own), best_peer),
        to_limit=_compare(_by_round(own), limit),
    )


def _by_round(rows: Iterable[ResultRow]) -> dict[int, float]:
    """Return the best time of each round, in microseconds."""
    best: dict[int, float] = {}
    for row in rows:
        best[row.round] = min(row.us_median, best.get(row.round, row.us_median))
    return best


def _compare(measured: Mapping[int, float], reference: Mapping[int, float]) -> PairedRatio | None:
    rounds = sorted(measured.keys() & reference.keys())
    if not rounds:
        return None
    pairs = [measured[number] for number in rounds], [reference[number] for number in rounds]
    interval = paired_ratio(*pairs) if len(rounds) >= MIN_PAIRS else None
    return PairedRatio(median(a / b for a, b in zip(*pairs, strict=True)), interval)
