# SPDX-License-Identifier: Apache-2.0
"""Time training steps with overlap, beside DDP and beside processes that do not communicate at all.

Start it by `python -m benchmarks.engine.training_step`. In each round torchrun launches every way, in a random order:
the large text transformer (7.2 million parameters), one thread per rank.

- floor: each process trains for itself;
- in step: the same, but the processes meet after each step and wait for the slowest, as with any reduction;
- ddp: DistributedDataParallel over Gloo;
- ringtune: DistributedOptimizer with its defaults.

A round's ratio compares the times above a floor: (ringtune - floor) ÷ (ddp - floor).
"""

import argparse
import json
import os
import random
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import TypeAlias

from rich.console import Console
from rich.progress import track
from rich.table import Table

WAYS = ("floor", "in step", "ddp", "ringtune")
REPOSITORY = Path(__file__).parents[2]
RANK = Path(__file__).parent / "ranks" / "training_step.py"
LAUNCH_LIMIT_S = 300.0
LEAST_MS = 0.005
"""Shortest part of a step that the table shows, milliseconds."""

Launches: TypeAlias = Mapping[str, Sequence[Mapping[str, float]]]
"""Medians of each launch, by way."""


def measured(way: str, ranks: int, steps: int) -> Mapping[str, float]:
    """Launch a way and return the median of its steps and of their parts on rank 0, milliseconds."""
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks))
    finished = subprocess.run(
        [*torchrun, str(RANK), way, str(steps)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(REPOSITORY / "examples")},
        timeout=LAUNCH_LIMIT_S,
    )
    found: dict[str, float] = json.loads(finished.stdout.splitlines()[-1])
    return found


def measure(rounds: int, ranks: int, steps: int) -> Launches:
    """Launch every way in every round."""
    order = random.Random(0)  # noqa: S311  (an order of turns, no secret)
    launches: dict[str, list[Mapping[str, float]]] = {way: [] for way in WAYS}
    for _ in track(range(rounds), description="rounds", console=Console(stderr=True), transient=True):
        for way in order.sample(WAYS, len(WAYS)):
            launches[way].append(measured(way, ranks, steps))
    return launches


def trace_table(launches: Launches) -> Table:
    """Return the median over rounds of a step's parts in each way, and of the engine's laps."""
    table = Table("ms per step", *launches)
    for part in dict.fromkeys(part for found in launches.values() for part in found[0]):
        medians = [median_of(part, found) for found in launches.values()]
        if max(medians) >= LEAST_MS:
            table.add_row(part.replace("_", " "), *(f"{value:.2f}" if value else "" for value in medians))
    return table


def median_of(part: str, found: Sequence[Mapping[str, float]]) -> float:
    """Return a part's median over launches; 0 where the way has no such part."""
    return median(each.get(part, 0.0) for each in found)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Time training steps beside DDP and beside no communication.")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--trace", action="store_true", help="also show the parts of a step, and the engine's laps")
    arguments = parser.parse_args()
    launches = measure(arguments.rounds, arguments.ranks, arguments.steps)
    times = {way: [launch["step"] for launch in found] for way, found in launches.items()}
    table = Table(f"{arguments.ranks} ranks, {arguments.rounds} rounds", "ms per step", "of each round")
    for way, values in times.items():
        table.add_row(way, f"{median(values):.1f}", " ".join(f"{value:.1f}" for value in values))
    console = Console()
    console.print(table)
    if arguments.trace:
        console.print(trace_table(launches))
    for floor in WAYS[:2]:
        rounds = zip(times[floor], times["ddp"], times["ringtune"], strict=True)
        shares = [(ours - least) / (theirs - least) for least, theirs, ours in rounds]
        console.print(f"above {floor}, ringtune ÷ ddp: {median(shares):.2f} ({min(shares):.2f} to {max(shares):.2f})")


if __name__ == "__main__":
    main()
