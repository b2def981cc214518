# SPDX-License-Identifier: Apache-2.0
"""Time one allreduce by size and algorithm: the evidence for the sizes at which `auto` changes the algorithm.

Start it by `ringtune run -np 2 python benchmarks/engine/allreduce_sizes.py`. Algorithms take turns within each round of
one launch. Rank 0 prints medians over the rounds, and ratios, which hold on other machines too.
"""

import argparse
import time
from collections.abc import Sequence
from statistics import median

import torch
from rich.console import Console
from rich.table import Table

import ringtune.torch as hvd
from ringtune.session.session import SESSION
from ringtune.tuner import default_config
from ringtune.tuner.space.parameters import ALGORITHMS_OF_ONE_HOST
from ringtune.world.engine_config import engine_config

KIB = 1024
SIZES_BYTES = tuple(KIB << shift for shift in range(0, 15, 2))
MAX_CALLS = 200
BYTES_PER_ROUND = 32 << 20


def allreduce_us(tensor: torch.Tensor, calls: int) -> float:
    """Return the median time of a blocking allreduce in this process, microseconds."""
    times_s = []
    for _ in range(calls):
        start_s = time.perf_counter()
        hvd.allreduce_(tensor, name="benchmark", op=hvd.Sum)
        times_s.append(time.perf_counter() - start_s)
    return median(times_s) * 1e6


def switch_to(algorithm: str) -> None:
    """Switch all ranks to an algorithm; the next collective runs under it."""
    if hvd.rank() == 0:
        config = default_config().replace({"allreduce_algorithm": algorithm})
        SESSION.require().engine.apply_config(engine_config(config))
    hvd.barrier()


def measure(rounds: int, algorithms: Sequence[str]) -> dict[int, dict[str, list[float]]]:
    """Return microseconds by size and algorithm, one value per round."""
    times: dict[int, dict[str, list[float]]] = {}
    for size_bytes in SIZES_BYTES:
        tensor = torch.zeros(size_bytes // 4)
        calls = max(5, min(MAX_CALLS, BYTES_PER_ROUND // size_bytes))
        times[size_bytes] = {algorithm: [] for algorithm in algorithms}
        for _ in range(rounds):
            for algorithm in algorithms:
                switch_to(algorithm)
                times[size_bytes][algorithm].append(allreduce_us(tensor, calls))
    return times


def main() -> None:
    """Measure on every rank; print on rank 0."""
    parser = argparse.ArgumentParser(description="Time one allreduce by size and algorithm.")
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    hvd.init()
    algorithms = ALGORITHMS_OF_ONE_HOST
    times = measure(arguments.rounds, algorithms)
    if hvd.rank() == 0:
        first, second = algorithms[:2]
        table = Table("KiB", *(f"{name}, us" for name in algorithms), f"{first} ÷ {second}")
        for size_bytes, by_name in times.items():
            ratio = median(a / b for a, b in zip(by_name[first], by_name[second], strict=True))
            cells = [f"{median(by_name[name]):.0f}" for name in algorithms]
            table.add_row(str(size_bytes // KIB), *cells, f"{ratio:.2f}")
        Console().print(table)
    hvd.shutdown()


if __name__ == "__main__":
    main()
