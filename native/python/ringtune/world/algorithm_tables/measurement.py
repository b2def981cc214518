# SPDX-License-Identifier: Apache-2.0
"""Measurement of the algorithm table: candidates, time limits, and the test that replaces a compiled-in value.

Each size has a contest. The candidates run in turn, round by round, and the one with the best median of the rounds'
ratios to the compiled-in value meets it again, alone, in rounds of their own: a candidate that looked best by chance
does not look so twice. It replaces the value only if it wins by the margin there. Sizes grow, so that it is known
before each whether its contest fits into the time that is left; sizes without a contest keep the compiled-in value.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple, Protocol

from .table import UNCHUNKED, CallTime, TableRow

LIMIT_S = 3.0
MARGIN = 0.07
"""Share of the time that a candidate must save."""
MIN_WON = 0.75
"""Share of the rounds in which it must have been the quicker one."""
BATCH_S = 0.001
MAX_CALLS = 1000
MIN_ROUNDS = 3
MAX_ROUNDS = 7
MIN_CONFIRMING = 5
MAX_CONFIRMING = 11

_KIB = 2**10
_MIB = 2**20
MAX_BYTES = 16 * _MIB
MAX_BYTES_PER_HOST = 256 * _MIB
"""Limit of the ranks' buffers together."""
_UNTIMED_BYTES = 64 * _KIB  # size of an untimed call that the engine makes before each batch
_GROWTH = 2.2  # largest growth of a call's time where its size is doubled
_SLOWER = 1.5  # expected ratio of a candidate's time to the compiled-in value's, to plan rounds

SMALL_SIZES = tuple(_KIB * 2**power for power in range(9))
LARGE_SIZES = (1 * _MIB, 4 * _MIB, 16 * _MIB)
CHUNKS = tuple(32 * _KIB * 2**power for power in range(5))


class Timer(Protocol):
    """An engine, as rank 0 leads it."""

    def time_allreduce(self, size_bytes: int, algorithm: str, chunk_bytes: int, calls: int) -> float:
        """Return the seconds that the calls took."""


class AlgorithmCandidate(NamedTuple):
    """An algorithm and a chunk with which a size may be reduced."""

    algorithm: str
    chunk_bytes: int


@dataclass(frozen=True)
class SizeClass:
    """Messages up to a size, beyond those of the class before.

    Attributes:
        max_bytes: The size, which stands for all of them.
        candidates: Candidates in order; the compiled-in value first.
    """

    max_bytes: int
    candidates: tuple[AlgorithmCandidate, ...]


@dataclass(frozen=True)
class MeasurementPlan:
    """Sizes and candidates to measure.

    Attributes:
        defaults: Rows of the sizes that are not reached: compiled in, or predicted.
        classes: Size classes, ascending.
        kept: Compiled-in rows that are not measured.
        batch_s: Seconds for which calls follow each other under one clock.
    """

    defaults: tuple[TableRow, ...]
    classes: tuple[SizeClass, ...]
    kept: tuple[TableRow, ...] = ()
    batch_s: float = BATCH_S


def sizes_for(ranks_per_host: Sequence[int]) -> list[int]:
    """Return the sizes that are measured, ascending.

    Args:
        ranks_per_host: Number of ranks on each host.
    """
    room_bytes = min(MAX_BYTES, MAX_BYTES_PER_HOST // max(ranks_per_host))
    return [size for size in (*SMALL_SIZES, *LARGE_SIZES) if size <= room_bytes]


def plan_on_one_host(defaults: Sequence[TableRow], algorithms: Sequence[str], ranks: int) -> MeasurementPlan:
    """Return the plan of the measurement on one host.

    Args:
        defaults: The compiled-in rows.
        algorithms: Algorithms that a table may name.
        ranks: Number of ranks of the host.
    """
    classes = []
    for size in sizes_for([ranks]):
        row = next(row for row in defaults if row.max_bytes is None or size <= row.max_bytes)
        default = AlgorithmCandidate(row.algorithm, row.chunk_bytes)
        others = [candidate for name in algorithms for candidate in _on_one_host(name, size, default.chunk_bytes)]
        classes.append(SizeClass(size, tuple(dict.fromkeys((default, *others)))))
    return MeasurementPlan(tuple(defaults), tuple(classes))


class Measured(NamedTuple):
    """Result of a measurement.

    Attributes:
        rows: The table's, for messages of any size.
        calls: Durations of the compiled-in values, by size, as far as the time allowed.
    """

    rows: tuple[TableRow, ...]
    calls: tuple[CallTime, ...]


def measure_table(
    timer: Timer, plan: MeasurementPlan, limit_s: float, clock: Callable[[], float] = time.monotonic
) -> Measured:
    """Measure as far as the time allows.

    Args:
        timer: Timer that runs the candidates.
        plan: The candidates.
        limit_s: Seconds that all of it may take; more only by a batch that takes longer than those before it. The
            smallest message is tried whatever that takes.
        clock: A steady clock in seconds.
    """
    measurement = _Measurement(timer, plan, clock, clock() + limit_s)
    rows = measurement.rows()
    return Measured(tuple(rows), tuple(measurement.calls))


@dataclass
class _Measurement:
    timer: Timer
    plan: MeasurementPlan
    clock: Callable[[], float]
    end_s: float
    chosen: list[TableRow] = field(default_factory=list)
    calls: list[CallTime] = field(default_factory=list)
    call_bytes: int = 0
    call_s: float = 0.0
    """Duration of the first candidate, at the last size that was timed."""

    def rows(self) -> list[TableRow]:
        classes = self.plan.classes
        for number, size_class in enumerate(classes):
            growth = size_class.max_bytes / self.call_bytes * _GROWTH / 2 if self.call_bytes > 0 else 1.0
            if self.call_s * growth * (1 + _untimed_calls(size_class)) > self._left_s():
                break
            contests_left = sum(len(later.candidates) > 1 for later in classes[number:])
            best = self._contest(size_class, contests_left)
            if best is None:
                break
            self.chosen.append(TableRow(size_class.max_bytes, *best))
        return self._completed()

    def _contest(self, size_class: SizeClass, contests_left: int) -> AlgorithmCandidate | None:
        """Return the winner of a size; None where the time is too short for its contest, and so for all larger ones."""
        default, *others = size_class.candidates
        if not others:
            return default
        calls = self._calls_in_a_batch(size_class.max_bytes, default)
        batch_s = self.call_s * (calls + _untimed_calls(size_class))
        rounds = _rounds_in(self._left_s() / contests_left, batch_s, len(others))
        ratios = self._run(size_class, others, calls, min(MAX_ROUNDS, rounds)) if rounds >= MIN_ROUNDS else {}
        if len(ratios.get(others[0], ())) < MIN_ROUNDS:
            return None
        best = min(others, key=lambda candidate: median(ratios[candidate]))
        if median(ratios[best]) > 1 - MARGIN:
            return default
        rounds = _rounds_in(self._left_s(), batch_s, 1)
        confirming = self._run(size_class, [best], calls, min(MAX_CONFIRMING, rounds))[best]
        return best if _is_won(confirming) else default

    def _calls_in_a_batch(self, size: int, default: AlgorithmCandidate) -> int:
        """Find out how long a call takes; the first one is slower than the rest."""
        first_s = self.timer.time_allreduce(size, *default, 1)
        calls = _calls_in(self.plan.batch_s, first_s)
        self.call_s = self.timer.time_allreduce(size, *default, calls) / calls if calls > 1 else first_s
        self.call_bytes = size
        self.calls.append(CallTime(size, self.call_s))
        return _calls_in(self.plan.batch_s, self.call_s)

    def _run(
        self, size_class: SizeClass, others: Sequence[AlgorithmCandidate], calls: int, rounds: int
    ) -> dict[AlgorithmCandidate, list[float]]:
        """Return each candidate's ratios to the compiled-in value, of the rounds that the time was enough for."""
        default = size_class.candidates[0]
        ratios: dict[AlgorithmCandidate, list[float]] = {candidate: [] for candidate in others}
        longest_s = 0.0
        for number in range(rounds):
            times: dict[AlgorithmCandidate, float] = {}
            in_turn = (default, *others) if number % 2 == 0 else (*reversed(others), default)
            for candidate in in_turn:
                begin_s = self.clock()
                if begin_s + longest_s >= self.end_s:
                    return ratios
                times[candidate] = self.timer.time_allreduce(size_class.max_bytes, *candidate, calls)
                longest_s = max(longest_s, self.clock() - begin_s)
            for candidate in others:
                ratios[candidate].append(times[candidate] / times[default])
        return ratios

    def _left_s(self) -> float:
        return self.end_s - self.clock()

    def _completed(self) -> list[TableRow]:
        """Return rows for messages of any size: the measured ones, then those that are compiled in."""
        rows, defaults = list(self.chosen), self.plan.defaults
        if len(rows) == len(self.plan.classes):
            rows[-1] = rows[-1]._replace(max_bytes=None)
            defaults = ()
        measured_bytes = (rows[-1].max_bytes or 0) if rows else 0
        rest = [row for row in defaults if row.max_bytes is None or row.max_bytes > measured_bytes]
        return [*_joined([*rows, *rest]), *self.plan.kept]


def _joined(rows: Sequence[TableRow]) -> list[TableRow]:
    """Return the rows with neighbours that differ in their bound alone made one."""
    joined: list[TableRow] = []
    for row in rows:
        if joined and joined[-1][1:] == row[1:]:
            joined.pop()
        joined.append(row)
    return joined


def _on_one_host(algorithm: str, size: int, default_chunk: int) -> list[AlgorithmCandidate]:
    if algorithm in UNCHUNKED:  # what lets every rank reduce everything is for small sizes
        return [AlgorithmCandidate(algorithm, default_chunk)] if size <= SMALL_SIZES[-1] else []
    chunks = [default_chunk, *(chunk for chunk in CHUNKS if chunk < size)]
    return [AlgorithmCandidate(algorithm, chunk) for chunk in chunks]


def _calls_in(seconds: float, call_s: float) -> int:
    return max(1, min(MAX_CALLS, int(seconds / call_s) if call_s > 0 else MAX_CALLS))


def _untimed_calls(size_class: SizeClass) -> float:
    """Return the cost of the untimed part of each batch, in calls."""
    return min(1.0, _UNTIMED_BYTES / size_class.max_bytes)


def _rounds_in(seconds: float, batch_s: float, others: int) -> int:
    return int(seconds / (batch_s * (1 + _SLOWER * others))) if batch_s > 0 else MAX_CONFIRMING


def _is_won(ratios: Sequence[float]) -> bool:
    won = sum(ratio < 1 for ratio in ratios)
    return len(ratios) >= MIN_CONFIRMING and median(ratios) <= 1 - MARGIN and won >= MIN_WON * len(ratios)
