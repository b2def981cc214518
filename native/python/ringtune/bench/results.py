# SPDX-License-Identifier: Apache-2.0
"""From the rows of all rounds to what the table says: medians over rounds, and ratios within rounds."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import median

from .paired_ratios import MIN_PAIRS, Ratio, paired_ratio

LIMIT_WAY = "staged"
"""The limit for the engine, whose buffers are ordinary memory."""


@dataclass(frozen=True)
class Row:
    """What a contestant has printed for a size, in one launch.

    Attributes:
        round: Number of the round.
        way: What was measured.
        bytes: Of the allreduce.
        ranks: Number of ranks.
        us_median: Microseconds per call, median over the launch's groups.
        us_p99: Their 99th percentile.
    """

    round: int
    way: str
    bytes: int
    ranks: int
    us_median: float
    us_p99: float


@dataclass(frozen=True)
class Comparison:
    """A ratio of times within rounds.

    Attributes:
        median: Over the rounds.
        interval: The same with its 95 % interval; None where there are too few rounds for one.
    """

    median: float
    interval: Ratio | None


@dataclass(frozen=True)
class Summary:
    """A way at a size, over all rounds.

    Attributes:
        bytes: Of the allreduce.
        way: What was measured.
        us_median: Median over rounds of the launches' medians, in microseconds.
        us_p99: Median over rounds of the launches' 99th percentiles, in microseconds.
        to_best_peer: Its time ÷ that of each round's best peer; None where no peer was measured.
        to_limit: Its time ÷ the staged limit's of the same round; None for the limit itself.
    """

    bytes: int
    way: str
    us_median: float
    us_p99: float
    to_best_peer: Comparison | None
    to_limit: Comparison | None


def summarize(rows: Sequence[Row], limit_ways: Collection[str], peers: Collection[str]) -> list[Summary]:
    """Return what was found, by size; of a size first the limit, then our layers, then the peers.

    Args:
        rows: Of all rounds; each way has one per round and size.
        limit_ways: Which ways are the limit's.
        peers: Which ways are peers'.
    """
    ways = sorted({row.way for row in rows}, key=lambda way: (way not in limit_ways, way in peers, way))
    summaries = []
    for size_bytes in sorted({row.bytes for row in rows}):
        by_way = {way: [row for row in rows if (row.bytes, row.way) == (size_bytes, way)] for way in ways}
        best_peer = _by_round(chain.from_iterable(by_way.get(peer, ()) for peer in peers))
        limit = _by_round(by_way.get(LIMIT_WAY, ()))
        summaries += [_summary(own, best_peer, {} if way in limit_ways else limit) for way, own in by_way.items()]
    return summaries


def _summary(own: Sequence[Row], best_peer: Mapping[int, float], limit: Mapping[int, float]) -> Summary:
    return Summary(
        bytes=own[0].bytes,
        way=own[0].way,
        us_median=median(row.us_median for row in own),
        us_p99=median(row.us_p99 for row in own),
        to_best_peer=_compare(_by_round(own), best_peer),
        to_limit=_compare(_by_round(own), limit),
    )


def _by_round(rows: Iterable[Row]) -> dict[int, float]:
    """Return the best time of each round, in microseconds."""
    best: dict[int, float] = {}
    for row in rows:
        best[row.round] = min(row.us_median, best.get(row.round, row.us_median))
    return best


def _compare(measured: Mapping[int, float], reference: Mapping[int, float]) -> Comparison | None:
    rounds = sorted(measured.keys() & reference.keys())
    if not rounds:
        return None
    pairs = [measured[number] for number in rounds], [reference[number] for number in rounds]
    interval = paired_ratio(*pairs) if len(rounds) >= MIN_PAIRS else None
    return Comparison(median(a / b for a, b in zip(*pairs, strict=True)), interval)
