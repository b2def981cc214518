# SPDX-License-Identifier: Apache-2.0
"""Allreduces of random shapes and every dtype, each compared bit by bit, while rank 0 switches the config.

The number of allreduces is the program's argument; the last line has this rank's counts as JSON. Elements are small
integers out of random tables that every rank knows: sums are exact in every dtype, and a misplaced element shows.
"""

import json
import random
import sys
from collections import Counter
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ringtune.session.submissions import REDUCIBLE
from ringtune.tuner import SearchSpace, default_config, search_space
from ringtune.tuner.space.parameters import tunable_names
from ringtune.world.engine_config import engine_config
from ringtune.world.world import World
from tests.integration.plain_rank import SUM, join, say

DTYPES = REDUCIBLE
BATCH = 32
POOLED = 8 * BATCH  # tensors that come again and again, known to the response cache; the others are new each time
CYCLES_PER_CONFIG = 10
BELOW = 16  # largest numerator of an element: a sum over 15 ranks is exact even in bfloat16
SMALL, LARGE = 700, 200_000
TABLE = LARGE + 60_000

Bits = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Tensor:
    """A tensor that all ranks combine under one name.

    Attributes:
        name: Its own among those in flight.
        dtype: The engine's number.
        shape: Its shape, of no to three dimensions.
        start: Index of its first element in the tables.
        is_in_place: Whether the result overwrites this rank's input.
    """

    name: str
    dtype: int
    shape: tuple[int, ...]
    start: int
    is_in_place: bool

    def part_of(self, table: Bits) -> Bits:
        """Return this tensor's elements out of a table of its dtype."""
        return table[self.start : self.start + prod(self.shape)]


def bits_of(numbers: Bits, dtype: str) -> Bits:
    """Return small numbers as a dtype's bits, which compare exactly; numpy has no bfloat16."""
    if dtype == "bfloat16":
        return (numbers.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    if dtype == "bool":
        return (numbers > 0).view(np.uint8)
    converted = numbers.astype(dtype)
    return converted.view(f"uint{8 * converted.itemsize}")


class Tables:
    """The elements that this rank gives and the results that all must get, by dtype."""

    def __init__(self, rank: int, size: int) -> None:
        """Draw the numbers of all ranks."""
        numbers = [np.random.default_rng(seed).integers(0, BELOW, TABLE) for seed in range(size)]
        few = [np.where(drawn == 0, 1, 0) for drawn in numbers]  # bool: true here or there, mostly nowhere
        each = [few if name == "bool" else numbers for name in DTYPES]
        self.given = [bits_of(drawn[rank], name) for drawn, name in zip(each, DTYPES, strict=True)]
        self.expected = [bits_of(np.sum(drawn, axis=0), name) for drawn, name in zip(each, DTYPES, strict=True)]


def draw_shape(chosen: random.Random) -> tuple[int, ...]:
    """Return a shape of no to three dimensions; one of fifty is large."""
    below = LARGE if chosen.randrange(50) == 0 else SMALL
    dimensions = chosen.randrange(4)
    if dimensions == 0:
        return ()
    inner = tuple(chosen.randrange(1, 8) for _ in range(dimensions - 1))
    return (chosen.randrange(below // prod(inner)), *inner)


def draw_batch(chosen: random.Random, pool: list[tuple[int, tuple[int, ...]]]) -> list[Tensor]:
    """Return the tensors in flight at once; the same on all ranks."""
    batch = []
    for number in range(BATCH):
        if chosen.random() < 0.5:
            place = number + BATCH * chosen.randrange(POOLED // BATCH)
            name, (dtype, shape) = f"pooled.{place}", pool[place]
        else:
            name, dtype, shape = f"new.{number}", chosen.randrange(len(DTYPES)), draw_shape(chosen)
        start = chosen.randrange(TABLE - LARGE)
        batch.append(Tensor(name, dtype, shape, start, chosen.random() < 0.5))
    return batch


class Stress:
    """Runs batches on this rank and counts their results."""

    def __init__(self, world: World) -> None:
        """Prepare; all ranks draw alike."""
        self.engine = world.engine
        self.rank = world.rank
        self.allreduces: Counter[str] = Counter()
        self.wrong = 0
        self._tables = Tables(world.rank, world.size)
        self._chosen = random.Random(3)
        self._pool = [(self._chosen.randrange(len(DTYPES)), draw_shape(self._chosen)) for _ in range(POOLED)]
        self._space = _space(world)
        self._configs = np.random.default_rng(5)
        self._next_switch = 0

    def run_batch(self) -> None:
        """Switch the config where it is time, submit a batch and check its results."""
        self._switch_config()
        batch = draw_batch(self._chosen, self._pool)
        pairs = [self._memory(tensor) for tensor in batch]
        handles = [
            self.engine.allreduce_async(
                tensor.name, given.ctypes.data, got.ctypes.data, tensor.shape, tensor.dtype, SUM, is_gradient=False
            )
            for tensor, (given, got) in zip(batch, pairs, strict=True)
        ]
        for tensor, (_, got), handle in zip(batch, pairs, handles, strict=True):
            self.engine.wait(handle)
            self._check(tensor, got)

    def _memory(self, tensor: Tensor) -> tuple[Bits, Bits]:
        given = tensor.part_of(self._tables.given[tensor.dtype])
        if tensor.is_in_place:
            got = given.copy()
            return got, got
        return given, np.zeros_like(given)

    def _check(self, tensor: Tensor, got: Bits) -> None:
        self.allreduces[DTYPES[tensor.dtype]] += 1
        expected = tensor.part_of(self._tables.expected[tensor.dtype])
        if not np.array_equal(expected, got):
            self.wrong += 1
            first = int(np.flatnonzero(expected != got)[0])
            text = f"element {first} is {got[first]:#x}, not {expected[first]:#x}"
            say(f"rank {self.rank}: {tensor} of {DTYPES[tensor.dtype]}: {text}")

    def _switch_config(self) -> None:
        if self.rank == 0 and self.engine.counters()["cycles"] >= self._next_switch:
            self.engine.apply_config(engine_config(self._space.random(self._configs)))
            self._next_switch = self.engine.counters()["cycles"] + CYCLES_PER_CONFIG


def _space(world: World) -> SearchSpace:
    names = tunable_names(world.layout.ranks_per_host, has_allgathers=True)
    return search_space({}, default_config(), tuned=names)


def main() -> None:
    """Run all batches and print the counts."""
    world = join()
    stress = Stress(world)
    for _ in range(0, int(sys.argv[1]), BATCH):
        stress.run_batch()
    counters = world.engine.counters()
    counted = {name: counters[name] for name in ("cycles", "config_switches", "cached_requests", "full_requests")}
    algorithms = {name: count for name, count in counters.items() if name.startswith("algorithm.") and count > 0}
    line = {"rank": world.rank, "wrong": stress.wrong, "allreduces": stress.allreduces, **counted}
    say(json.dumps({**line, "algorithms": algorithms}))
    world.shutdown()


main()
