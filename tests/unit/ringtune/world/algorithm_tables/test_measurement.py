# SPDX-License-Identifier: Apache-2.0
"""Measurement of algorithm tables: its order, its end, and the evidence that replaces a compiled-in value."""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
import pytest

from ringtune.world.algorithm_tables.measurement import (
    BATCH_S,
    LIMIT_S,
    MAX_BYTES_PER_HOST,
    SMALL_SIZES,
    MeasurementPlan,
    measure_table,
    plan_on_one_host,
    sizes_for,
)
from ringtune.world.algorithm_tables.table import TableRow

KIB = 2**10
MIB = 2**20
DIRECT = "direct"
STAGED = "reduce_scatter_allgather"
ONE_HOST = (TableRow(16 * KIB, DIRECT, 128 * KIB), TableRow(None, STAGED, 128 * KIB))

Cost = Callable[[int, str, int], float]


@dataclass
class Machine:
    """Calls that take the seconds that `cost` returns, and a clock that they move; `scatter` multiplies each batch."""

    cost: Cost
    scatter: Callable[[], float] = lambda: 1.0
    now_s: float = 0.0
    longest_batch_s: float = 0.0
    timed: list[tuple[int, str, int]] = field(default_factory=list)

    def clock(self) -> float:
        """Return the time."""
        return self.now_s

    def time_allreduce(self, size_bytes: int, algorithm: str, chunk_bytes: int, calls: int) -> float:
        """Run a batch, after the call that the engine does not time."""
        self.timed.append((size_bytes, algorithm, chunk_bytes))
        taken_s = calls * self.cost(size_bytes, algorithm, chunk_bytes) * self.scatter()
        untimed_s = self.cost(min(size_bytes, 64 * KIB), algorithm, chunk_bytes)
        self.now_s += taken_s + untimed_s
        self.longest_batch_s = max(self.longest_batch_s, taken_s + untimed_s)
        return taken_s


def memory(size_bytes: int, _algorithm: str, _chunk_bytes: int) -> float:
    """Return the cost of a machine on which just the size matters: 1 us and 4 GB/s."""
    return 1e-6 + size_bytes / 4e9


def on_one_host(ranks: int = 2) -> MeasurementPlan:
    """Return the plan for the ranks of one host."""
    return plan_on_one_host(ONE_HOST, [DIRECT, STAGED], ranks)


def rows_of(plan: MeasurementPlan, machine: Machine, limit_s: float = LIMIT_S) -> list[TableRow]:
    """Return the measurements on a machine."""
    return list(measure_table(machine, plan, limit_s, machine.clock).rows)


def test_where_nothing_differs_the_compiled_in_values_stay() -> None:
    """A flat surface leaves the table as it is."""
    assert list(ONE_HOST) == rows_of(on_one_host(), Machine(memory))


def test_a_faster_algorithm_gets_the_sizes_at_which_it_is_faster() -> None:
    """The bound moves to the largest size that was won."""

    def direct_is_quick(size: int, algorithm: str, chunk: int) -> float:
        is_quick = algorithm == DIRECT and size <= 64 * KIB
        return memory(size, algorithm, chunk) * (0.5 if is_quick else 1.0)

    rows = rows_of(on_one_host(), Machine(direct_is_quick))

    assert [TableRow(64 * KIB, DIRECT, 128 * KIB), TableRow(None, STAGED, 128 * KIB)] == rows


def test_a_faster_chunk_is_used_from_the_size_on_at_which_it_is_faster() -> None:
    """The result at the largest size holds for all sizes above."""

    def large_chunks_are_quick(size: int, algorithm: str, chunk: int) -> float:
        is_quick = algorithm == STAGED and chunk == 512 * KIB and size > MIB
        return memory(size, algorithm, chunk) * (0.8 if is_quick else 1.0)

    rows = rows_of(on_one_host(), Machine(large_chunks_are_quick))

    assert [*ONE_HOST[:1], TableRow(MIB, STAGED, 128 * KIB), TableRow(None, STAGED, 512 * KIB)] == rows


@pytest.mark.parametrize("saved", [0.02, 0.06])
def test_what_saves_less_than_the_margin_replaces_nothing(saved: float) -> None:
    """Small differences are not worth a table that jumps."""

    def slightly_quicker(size: int, algorithm: str, chunk: int) -> float:
        return memory(size, algorithm, chunk) * (1 - saved if chunk == 64 * KIB else 1.0)

    assert list(ONE_HOST) == rows_of(on_one_host(), Machine(slightly_quicker))


@pytest.mark.parametrize("seed", range(10))
def test_noise_replaces_nothing(seed: int) -> None:
    """Batches that scatter by 5 % around the same time win no size."""
    noise = random.Random(seed)

    rows = rows_of(on_one_host(), Machine(memory, scatter=lambda: noise.lognormvariate(0, 0.05)))

    assert list(ONE_HOST) == rows


class Fickle(Machine):
    """One candidate at one size takes `factors` of the others' time, batch by batch; the last one stays."""

    factors: tuple[float, ...] = ()

    def time_allreduce(self, size_bytes: int, algorithm: str, chunk_bytes: int, calls: int) -> float:
        """Run a batch; the candidate is the small chunk of 64 KiB."""
        taken_s = super().time_allreduce(size_bytes, algorithm, chunk_bytes, calls)
        if (size_bytes, algorithm, chunk_bytes) != FICKLE:
            return taken_s
        return taken_s * self.factors[min(self.batches, len(self.factors)) - 1]

    @property
    def batches(self) -> int:
        """Return the number of the candidate's batches."""
        return self.timed.count(FICKLE)


FICKLE = (64 * KIB, STAGED, 32 * KIB)
IN_THE_SEARCH = 7
IN_THE_CONFIRMATION = 11


@pytest.mark.parametrize(
    "confirmation",
    [
        pytest.param((1.0,), id="as slow as the others"),
        pytest.param((0.96,), id="quicker by less than the margin"),
        pytest.param((0.5, 0.5, 1.1, 0.5, 0.5, 1.1, 0.5, 1.1, 0.5, 0.5, 1.1), id="quicker in seven rounds of eleven"),
    ],
)
def test_who_was_lucky_once_must_win_again(confirmation: tuple[float, ...]) -> None:
    """A candidate that is quick while it is searched for, and not when it is confirmed, is dropped."""
    machine = Fickle(memory)
    machine.factors = (*(0.5,) * IN_THE_SEARCH, *confirmation)

    assert list(ONE_HOST) == rows_of(on_one_host(), machine)
    assert IN_THE_SEARCH + IN_THE_CONFIRMATION == machine.batches


def test_who_wins_twice_is_used() -> None:
    """Three rounds of eleven may be lost."""
    machine = Fickle(memory)
    machine.factors = (*(0.5,) * IN_THE_SEARCH, 0.5, 1.1, 1.1, 0.5, 0.5, 0.5)

    assert TableRow(64 * KIB, STAGED, 32 * KIB) in rows_of(on_one_host(), machine)


def test_a_few_rounds_confirm_nothing() -> None:
    """The compiled-in value stays where the time is over after a few rounds."""

    class Interrupted(Fickle):
        def clock(self) -> float:
            return LIMIT_S if self.batches > IN_THE_SEARCH + 2 else super().clock()

    machine = Interrupted(memory)
    machine.factors = (0.5,)

    assert list(ONE_HOST) == rows_of(on_one_host(), machine)


def test_who_loses_is_not_tried_again() -> None:
    """The time is for those that may win."""
    machine = Fickle(memory)
    machine.factors = (0.98,)

    rows_of(on_one_host(), machine)

    assert IN_THE_SEARCH == machine.batches


@pytest.mark.parametrize("bytes_per_s", [1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10])
@pytest.mark.parametrize("latency_s", [1e-6, 1e-4, 1e-2])
def test_the_limit_holds_on_machines_of_any_speed(bytes_per_s: float, latency_s: float) -> None:
    """A measurement that no longer fits is not begun, and its size keeps the compiled-in value."""
    machine = Machine(lambda size, _algorithm, _chunk: latency_s + size / bytes_per_s)

    rows = rows_of(on_one_host(), machine)

    assert list(ONE_HOST) == rows
    assert machine.now_s <= LIMIT_S + 0.2


def test_a_fast_machine_has_every_size_measured() -> None:
    """No size is left out while there is time for it."""
    machine = Machine(lambda size, _algorithm, _chunk: 2e-5 + size / 5e9)

    rows_of(on_one_host(), machine)

    assert sizes_for([2])[-1] == max(size for size, _, _ in machine.timed)
    assert machine.now_s < LIMIT_S


def test_a_link_that_slows_down_meanwhile_costs_one_batch_at_most() -> None:
    """No round is completed once the time is over, and half a round is ignored."""
    begun: list[int] = []

    def slower_and_slower(size: int, algorithm: str, chunk: int) -> float:
        begun.append(size)
        is_slow = size == 4 * MIB and chunk != 128 * KIB
        return memory(size, algorithm, chunk) * (10_000.0 if is_slow else 1.0)

    machine = Machine(slower_and_slower)

    assert list(ONE_HOST) == rows_of(on_one_host(), machine)
    assert LIMIT_S < machine.now_s <= LIMIT_S + machine.longest_batch_s


@pytest.mark.parametrize("slower", [2.0, 3.0, 4.0, 5.0, 6.0])
@pytest.mark.parametrize("bytes_per_s", [2e7, 5e7, 1e8])
def test_no_batch_is_begun_for_which_there_is_no_time(slower: float, bytes_per_s: float) -> None:
    """The check covers candidates that are slower than planned."""
    machine = Machine(
        lambda size, _algorithm, chunk: 1e-3 + size / bytes_per_s * (1.0 if chunk == 128 * KIB else slower)
    )

    rows_of(on_one_host(), machine)

    assert machine.now_s <= LIMIT_S


def test_without_time_everything_stays_compiled_in() -> None:
    """A limit that is over at once is no error."""
    assert list(ONE_HOST) == rows_of(on_one_host(), Machine(memory), limit_s=-1.0)


@pytest.mark.parametrize("limit_s", [0.0, 0.003, 0.03, 0.1, 0.3, 1.0])
def test_rows_serve_every_message_however_far_the_measurement_came(limit_s: float) -> None:
    """Bounds ascend, and the last row has none; measured sizes come first."""

    def small_chunks_are_quick(size: int, algorithm: str, chunk: int) -> float:
        return memory(size, algorithm, chunk) * (0.5 + chunk / MIB)

    rows = rows_of(on_one_host(), Machine(small_chunks_are_quick), limit_s)

    bounds = [row.max_bytes for row in rows]
    assert None is bounds[-1]
    assert sorted(set(bounds[:-1]), key=lambda bound: bound or 0) == bounds[:-1]


def chunks_at(plan: MeasurementPlan, size: int) -> set[int]:
    """Return the chunks that are tried at a size."""
    return {chunk for c in plan.classes if c.max_bytes == size for _, chunk in c.candidates}


def test_chunks_are_tried_only_where_they_differ() -> None:
    """A message of one chunk moves alike whatever the chunk."""
    assert {128 * KIB} == chunks_at(on_one_host(), 32 * KIB)
    assert {128 * KIB, 32 * KIB} == chunks_at(on_one_host(), 64 * KIB)


def test_what_lets_every_rank_reduce_everything_is_tried_for_small_messages_alone() -> None:
    """The algorithm's work grows with the ranks, and its time would be the others'."""
    sizes_tried = {c.max_bytes for c in on_one_host().classes if DIRECT in {name for name, _ in c.candidates}}

    assert set(SMALL_SIZES) == sizes_tried


def test_the_compiled_in_value_is_what_all_are_compared_with() -> None:
    """The compiled-in value is the first candidate of each size, and no candidate comes twice."""
    for size_class in on_one_host().classes:
        candidates = size_class.candidates
        expected = DIRECT if size_class.max_bytes <= 16 * KIB else STAGED
        assert (expected, 128 * KIB) == candidates[0]
        assert len(set(candidates)) == len(candidates)


@pytest.mark.parametrize("ranks", [2, 16, 64, 250])
def test_many_ranks_of_a_host_have_smaller_messages(ranks: int) -> None:
    """The ranks' buffers together keep to a bound."""
    max_bytes = sizes_for([ranks])[-1]

    assert max_bytes == on_one_host(ranks).classes[-1].max_bytes
    assert ranks * max_bytes <= MAX_BYTES_PER_HOST
    assert max_bytes >= 256 * KIB


def test_short_calls_are_timed_in_batches() -> None:
    """A clock's own time is no part of the compared times."""
    calls: list[int] = []

    class Counting(Machine):
        def time_allreduce(self, size_bytes: int, algorithm: str, chunk_bytes: int, calls_made: int) -> float:
            calls.append(calls_made)
            return super().time_allreduce(size_bytes, algorithm, chunk_bytes, calls_made)

    machine = Counting(memory)

    rows_of(on_one_host(), machine)

    assert BATCH_S / 2 <= max(calls) * memory(KIB, DIRECT, 0) <= BATCH_S * 2


def sizes(timed: Iterable[tuple[int, str, int]]) -> list[int]:
    """Return the sizes in the order in which they were first timed."""
    return list(dict.fromkeys(size for size, _, _ in timed))


def test_sizes_grow() -> None:
    """Sizes grow, so that the time of the next one is known before it is begun."""
    machine = Machine(memory)

    rows_of(on_one_host(), machine)

    assert sorted(sizes(machine.timed)) == sizes(machine.timed)


def test_what_calls_took_is_told_by_size() -> None:
    """The report has times by size with the compiled-in values, as far as the time allowed."""
    machine = Machine(memory)

    calls = measure_table(machine, on_one_host(), LIMIT_S, machine.clock).calls

    assert [size_class.max_bytes for size_class in on_one_host().classes] == [call.size_bytes for call in calls]
    assert np.allclose([memory(call.size_bytes, "", 0) for call in calls], [call.call_s for call in calls])
