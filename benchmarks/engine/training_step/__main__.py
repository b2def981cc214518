# SPDX-License-Identifier: Apache-2.0
"""Time training steps with overlap, beside DDP and beside ranks that do not communicate, in turn within one job.

Start it by `python -m benchmarks.engine.training_step`. torchrun launches each job once, with one thread per rank. In
each round, every way trains a block of steps on the same ranks, in a random order:

- floor: each rank trains for itself;
- in step: the same, but the ranks meet after each step and wait for the slowest, as with any reduction;
- ddp: DistributedDataParallel over Gloo;
- ringtune: DistributedOptimizer with its defaults.

The share compares the times above a floor: (ringtune - floor) ÷ (ddp - floor), with its 95 % interval. That of
processor time is also sharp on a busy machine, and leaves out all waiting.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.engine.training_step.competitors import competitors
from benchmarks.engine.training_step.excess import share_of_excess
from benchmarks.engine.training_step.ways import PARTS, WAYS

REPOSITORY = Path(__file__).parents[3]
RANK = Path(__file__).parent / "ranks" / "turns.py"
SECONDS = {"transformer": 160.0, "convolutional": 45.0, "mlp": 45.0}
"""Seconds of each job: long steps need most. All end within five minutes on a quiet machine."""
LAUNCH_LIMIT_S = 300.0
"""Longest time that a job may take beside its rounds."""


def measured(job: str, ranks: int, seconds: float) -> dict[str, Any]:
    """Launch a job and return the report of its rank 0."""
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks))
    paths = os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "examples")])
    finished = subprocess.run(
        [*torchrun, str(RANK), job, str(seconds)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": paths},
        timeout=seconds + LAUNCH_LIMIT_S,
    )
    if finished.returncode:
        raise SystemExit(f"{job} ended with exit code {finished.returncode}\n{finished.stderr}")
    found: dict[str, Any] = json.loads(finished.stdout.splitlines()[-1])
    return found


def table_of(found: dict[str, Any]) -> Table:
    """Return the medians over rounds of a step, its parts and its processor time, in each way."""
    rounds = found["rounds"]
    title = f"{found['title']}: {found['ranks']} ranks, {len(rounds)} rounds of {found['steps']} steps each way"
    table = Table("ms per step", *WAYS, title=title)
    for part in ("step", *PARTS, "processor"):
        table.add_row(part, *(f"{median(blocks[way][part] for blocks in rounds):.3g}" for way in WAYS))
    return table


def shares_of(found: dict[str, Any]) -> Sequence[str]:
    """Return a sentence per floor and kind of time."""
    lines = []
    for kind in ("step", "processor"):
        rounds = [{way: block[kind] for way, block in blocks.items()} for blocks in found["rounds"]]
        for floor in WAYS[:2]:
            share = share_of_excess(rounds, floor, "ddp", "ringtune")
            lines.append(f"{kind} time above {floor}, ringtune ÷ ddp: {share}")
    return lines


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Time training steps beside DDP and beside no communication.")
    parser.add_argument("--jobs", nargs="+", choices=SECONDS, default=list(SECONDS), help="models (default: all)")
    parser.add_argument("--seconds", type=float, help="duration of each job's rounds (default: 160, 45, 45)")
    parser.add_argument("--ranks", type=int, default=2, help="ranks (default: 2)")
    parser.add_argument(
        "--beside", type=float, default=0.0, metavar="DUTY", help="share of each core that other processes use, 0 to 1"
    )
    parser.add_argument("--trace", action="store_true", help="also show the engine's laps")
    arguments = parser.parse_args()
    console = Console()
    with competitors(arguments.beside):
        for job in arguments.jobs:
            found = measured(job, arguments.ranks, arguments.seconds or SECONDS[job])
            console.print(table_of(found))
            if arguments.trace:
                laps = ", ".join(f"{lap} {ms:.2f}" for lap, ms in found["laps_ms"].items())
                console.print(f"the engine's laps, ms per step of ringtune: {laps}")
            for line in shares_of(found):
                console.print(line)
            equal = "equal" if found["is_equal"] else "NOT equal"
            console.print(f"weights of ddp and ringtune after {found['trained']} steps: {equal} to the last bit\n")


if __name__ == "__main__":
    main()
