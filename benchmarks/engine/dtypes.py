# SPDX-License-Identifier: Apache-2.0
"""Time allreduces of 16-bit floats and of float32, with equal numbers of elements.

Start it by `ringtune run -np 2 python benchmarks/engine/dtypes.py`; `--layer engine` measures named, blocking
allreduces from Python instead of the collective layer alone. The types take turns within each round of one launch; rank
0 prints medians over the rounds, and the median of each round's ratio to float32. `--trace` runs everything once more
with the stopwatch on, and prints microseconds per call in each lap.
"""

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Protocol

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table

from ringtune._engine import LapTimes
from ringtune.measuring.bench.collective_rank import CollectiveCaller
from ringtune.measuring.bench.timing import aligned_zeros
from ringtune.session.basics import init, shutdown
from ringtune.session.process_sets import global_process_set
from ringtune.session.submissions import DTYPES, Operand, Reduction, Sum, start_allreduce, world_of

FLOAT32 = "float32"
ELEMENT_BYTES: Mapping[str, int] = {FLOAT32: 4, "float16": 2, "bfloat16": 2}
ELEMENTS = (1 << 18, 1 << 20, 1 << 22, 1 << 24)
CALLS_BYTES = 16 << 20
"""Bytes that the calls of one measurement reduce, about."""
MEMORIES = ("ordinary", "registered")
FILE_WIDTH = 160
"""Columns of a table that goes into a file."""

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class ZeroTensor:
    """Zeros of a type, in one kind of memory."""

    memory: str
    dtype: str
    data: Bytes

    @property
    def elements(self) -> int:
        """Number of elements."""
        return self.data.nbytes // ELEMENT_BYTES[self.dtype]


class MeasuredLayer(Protocol):
    """Layer of the engine under measurement."""

    rank: int
    laps: LapTimes

    def zeros(self, memory: str, size_bytes: int) -> Bytes:
        """Return zeros in a kind of memory."""

    def allreduce(self, tensor: ZeroTensor, calls: int) -> None:
        """Sum a tensor over all ranks in place, `calls` times."""


class CollectiveLayer:
    """The collectives alone."""

    def __init__(self) -> None:
        self._caller = CollectiveCaller()
        self.rank, self.laps = self._caller.rank, self._caller.laps

    def zeros(self, memory: str, size_bytes: int) -> Bytes:
        """Return zeros in a kind of memory."""
        zeros = self._caller.registered_zeros if memory == "registered" else aligned_zeros
        return zeros(size_bytes // 4).view(np.uint8)

    def allreduce(self, tensor: ZeroTensor, calls: int) -> None:
        """Sum a tensor over all ranks."""
        self._caller.allreduce_as(tensor.dtype, tensor.data.ctypes.data, tensor.elements, calls)


class WholeEngine:
    """Named allreduces from Python, each waited for."""

    def __init__(self) -> None:
        init()
        self._world = world_of(global_process_set)
        self.rank, self.laps = self._world.rank, self._world.engine.laps

    def zeros(self, memory: str, size_bytes: int) -> Bytes:
        """Return zeros in a kind of memory."""
        if memory == "registered":
            registered = self._world.engine.allocate_registered(size_bytes)
            registered.fill(0)
            return registered
        return aligned_zeros(size_bytes // 4).view(np.uint8)

    def allreduce(self, tensor: ZeroTensor, calls: int) -> None:
        """Sum a tensor over all ranks."""
        operand = Operand(tensor.data.ctypes.data, (tensor.elements,), DTYPES.index(tensor.dtype), tensor.data)
        name = f"{tensor.memory}.{tensor.dtype}.{tensor.elements}"
        for _ in range(calls):
            start_allreduce(self._world, name, (operand, operand), Reduction(Sum), lambda _: None).wait()


def call_us(layer: MeasuredLayer, tensor: ZeroTensor, calls: int) -> float:
    """Return microseconds per call on this rank, over as many calls; the first waits for the other ranks."""
    layer.allreduce(tensor, 1)
    start_s = time.perf_counter()
    layer.allreduce(tensor, calls)
    return (time.perf_counter() - start_s) / calls * 1e6


def laps_us(layer: MeasuredLayer, tensor: ZeroTensor, calls: int) -> Mapping[str, float]:
    """Return microseconds per call in each lap on this rank."""
    layer.allreduce(tensor, 1)
    layer.laps.start()
    layer.allreduce(tensor, calls)
    return {lap: seconds / calls * 1e6 for lap, seconds in layer.laps.seconds().items()}


def tensors_of(layer: MeasuredLayer, memory: str, elements: int) -> Sequence[ZeroTensor]:
    """Return one tensor of each type."""
    return [
        ZeroTensor(memory, dtype, layer.zeros(memory, elements * size_bytes))
        for dtype, size_bytes in ELEMENT_BYTES.items()
    ]


def measure(layer: MeasuredLayer, rounds: int) -> Table:
    """Return a table of times and their ratios."""
    table = Table("elements", "memory", "dtype", "us", "÷ float32")
    for elements in ELEMENTS:
        calls = max(2, CALLS_BYTES // (4 * elements))
        for memory in MEMORIES:
            tensors = tensors_of(layer, memory, elements)
            times = [[call_us(layer, tensor, calls) for tensor in tensors] for _ in range(1 + rounds)][1:]
            for number, tensor in enumerate(tensors):
                us = median(row[number] for row in times)
                ratio = median(row[number] / row[0] for row in times)
                table.add_row(f"{elements:,}", memory, tensor.dtype, f"{us:,.0f}", f"{ratio:.2f}")
    return table


def traced(layer: MeasuredLayer) -> Table:
    """Return a table of the seconds of each lap."""
    found = []
    for elements in ELEMENTS:
        calls = max(2, CALLS_BYTES // (4 * elements))
        for memory in MEMORIES:
            found += [(tensor, laps_us(layer, tensor, calls)) for tensor in tensors_of(layer, memory, elements)]
    laps = [lap for lap in found[0][1] if any(us[lap] >= 0.05 for _, us in found)]
    table = Table("elements", "memory", "dtype", *laps)
    for tensor, us in found:
        table.add_row(f"{tensor.elements:,}", tensor.memory, tensor.dtype, *(f"{us[lap]:,.1f}" for lap in laps))
    return table


def main() -> None:
    """Measure on every rank; print on rank 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layer", choices=("collective", "engine"), default="collective")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--trace", action="store_true")
    arguments = parser.parse_args()
    layer: MeasuredLayer = CollectiveLayer() if arguments.layer == "collective" else WholeEngine()
    tables = [measure(layer, arguments.rounds), *([traced(layer)] if arguments.trace else [])]
    if layer.rank == 0:
        for table in tables:
            Console(width=None if sys.stdout.isatty() else FILE_WIDTH).print(table)
    if isinstance(layer, WholeEngine):
        shutdown()


if __name__ == "__main__":
    main()
