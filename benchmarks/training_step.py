# SPDX-License-Identifier: Apache-2.0
"""Time training steps with overlap, beside DDP and beside processes that do not communicate at all.

Start it by `python -m benchmarks.training_step`. In each round torchrun launches every way anew, in an order drawn
anew: the large text transformer (7.2 million parameters), one thread per rank.

- floor: as many processes train, each for itself;
- in step: the same, but they meet after each step, so that each waits for the slowest: what no reduction can avoid;
- ddp: DistributedDataParallel over Gloo;
- ringtune: DistributedOptimizer, as it comes.

What matters is the time above a floor: a round's ratio is (ringtune - floor) ÷ (ddp - floor).
"""

import argparse
import os
import random
import subprocess
import sys
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.progress import track
from rich.table import Table

WAYS = ("floor", "in step", "ddp", "ringtune")
REPOSITORY = Path(__file__).parents[1]
LAUNCH_LIMIT_S = 300.0


def step_ms(way: str, ranks: int, steps: int) -> float:
    """Launch a way and return the median time of its steps on rank 0, milliseconds."""
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks))
    finished = subprocess.run(
        [*torchrun, str(Path(__file__).with_name("training_step_rank.py")), way, str(steps)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(REPOSITORY / "examples")},
        timeout=LAUNCH_LIMIT_S,
    )
    return float(finished.stdout.split()[-1])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Time training steps beside DDP and beside no communication.")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--ranks", type=int, default=2)
    arguments = parser.parse_args()
    order = random.Random(0)  # noqa: S311  (an order of turns, no secret)
    times: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in track(range(arguments.rounds), description="rounds", console=Console(stderr=True), transient=True):
        for way in order.sample(WAYS, len(WAYS)):
            times[way].append(step_ms(way, arguments.ranks, arguments.steps))
    table = Table(f"{arguments.ranks} ranks, {arguments.rounds} rounds", "ms per step", "of each round")
    for way, values in times.items():
        table.add_row(way, f"{median(values):.1f}", " ".join(f"{value:.1f}" for value in values))
    console = Console()
    console.print(table)
    for floor in WAYS[:2]:
        rounds = zip(times[floor], times["ddp"], times["ringtune"], strict=True)
        shares = [(ours - least) / (theirs - least) for least, theirs, ours in rounds]
        console.print(f"above {floor}, ringtune ÷ ddp: {median(shares):.2f} ({min(shares):.2f} to {max(shares):.2f})")


if __name__ == "__main__":
    main()
