# SPDX-License-Identifier: Apache-2.0
"""Time steps of many small gradients: together against one by one, and with two types mixed.

Start it by `ringtune run -np 2 python benchmarks/engine/small_tensors.py`. The ways take turns within each round of one
launch. Rank 0 prints medians over the rounds, and ratios, which hold on other machines too.

- one by one: each tensor is waited for before the next is submitted, as in a loop of blocking allreduces;
- together: all are submitted, then all are waited for, so that they fuse;
- mixed: float16 and float32 in turn. A fusion that ends at each change of type holds one tensor, like
  `fusion_bytes=0`; look-ahead fuses each type.
"""

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median

import torch
from rich.console import Console
from rich.table import Table

import ringtune.torch as hvd
from ringtune.session.session import SESSION
from ringtune.tuner import default_config
from ringtune.world.engine_config import engine_config

TENSORS = 100
ELEMENTS = 256
STEPS = 20
MIB = 1 << 20

Step = Callable[[Sequence[torch.Tensor]], None]


def one_by_one(tensors: Sequence[torch.Tensor]) -> None:
    """Wait for each tensor before the next is submitted."""
    for number, tensor in enumerate(tensors):
        hvd.allreduce_(tensor, name=str(number), op=hvd.Sum)


def together(tensors: Sequence[torch.Tensor]) -> None:
    """Submit all, then wait for all."""
    handles = [hvd.allreduce_async_(tensor, name=str(number), op=hvd.Sum) for number, tensor in enumerate(tensors)]
    for handle in handles:
        hvd.synchronize(handle)


def switch_to(fusion_bytes: int) -> None:
    """Switch all ranks to a fusion limit; the next collective runs under it."""
    if hvd.rank() == 0:
        config = default_config().replace({"fusion_bytes": fusion_bytes})
        SESSION.require().engine.apply_config(engine_config(config))
    hvd.barrier()


def step_ms(step: Step, tensors: Sequence[torch.Tensor], fusion_bytes: int) -> float:
    """Return the median time of a step on this rank, milliseconds."""
    switch_to(fusion_bytes)
    step(tensors)  # the first one negotiates names
    times_s = []
    for _ in range(STEPS):
        start_s = time.perf_counter()
        step(tensors)
        times_s.append(time.perf_counter() - start_s)
    return median(times_s) * 1e3


def measure(rounds: int) -> Mapping[str, list[float]]:
    """Return milliseconds per step by way, one value per round."""
    plain = [torch.zeros(ELEMENTS) for _ in range(TENSORS)]
    mixed = [torch.zeros(ELEMENTS, dtype=(torch.float32, torch.float16)[i % 2]) for i in range(TENSORS)]
    ways: Mapping[str, tuple[Step, Sequence[torch.Tensor], int]] = {
        "one by one": (one_by_one, plain, 64 * MIB),
        "together": (together, plain, 64 * MIB),
        "mixed, a fusion ends at each change of type": (together, mixed, 0),
        "mixed, looking ahead": (together, mixed, 64 * MIB),
    }
    times: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(rounds):
        for way, (step, tensors, fusion_bytes) in ways.items():
            times[way].append(step_ms(step, tensors, fusion_bytes))
    return times


def ratio(times: Mapping[str, list[float]], slow: str, quick: str) -> float:
    """Return the median over the rounds of how many times longer `slow` took."""
    return median(a / b for a, b in zip(times[slow], times[quick], strict=True))


def main() -> None:
    """Measure on every rank; print on rank 0."""
    parser = argparse.ArgumentParser(description="Time steps of many small gradients.")
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    hvd.init()
    times = measure(arguments.rounds)
    if hvd.rank() == 0:
        table = Table(f"{TENSORS} tensors of {ELEMENTS} elements, {hvd.size()} ranks", "ms per step")
        for way, values in times.items():
            table.add_row(way, f"{median(values):.2f}")
        console = Console()
        console.print(table)
        first, second, alone, ahead = times
        console.print(f"one by one ÷ together: {ratio(times, first, second):.1f}")
        console.print(f"mixed types, without ÷ with look-ahead: {ratio(times, alone, ahead):.2f}")
    hvd.shutdown()


if __name__ == "__main__":
    main()
