# SPDX-License-Identifier: Apache-2.0
"""Measure the cost of an idle engine: while its job sleeps, and while it computes.

Start it by `python -m benchmarks.engine.idle_cost`. Each round launches two ranks with an engine and two without, in a
random order. A rank with an engine first reduces a few tensors. Then each rank sleeps, and computes.
"""

import argparse
import json
import random
import re
import subprocess
import sys
import time
from statistics import median

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from ringtune import arrays

WAYS = ("without an engine", "with an engine")
RANK = "--rank"
SLEEP_S = 5.0
SETTLE_S = 0.5
PRODUCTS = 3000
EXTENT = 96
LAUNCH_LIMIT_S = 120.0


def run_rank(way: str) -> None:
    """Print this rank's processor time while it sleeps, and how long its products take, both in seconds."""
    if way == WAYS[1]:
        arrays.init()
        for _ in range(100):
            arrays.allreduce(np.ones(1024, dtype=np.float32), name="work")
    time.sleep(SETTLE_S)
    before_s = time.process_time()
    time.sleep(SLEEP_S)
    idle_s = time.process_time() - before_s
    matrix = np.eye(EXTENT)
    before_s = time.perf_counter()
    for _ in range(PRODUCTS):
        matrix = matrix @ matrix
    print(json.dumps({"idle_s": idle_s, "compute_s": time.perf_counter() - before_s}))
    if way == WAYS[1]:
        arrays.shutdown()


def launch(way: str) -> tuple[float, float]:
    """Return the largest processor time of a sleeping rank and the mean time of the products, seconds."""
    start = [sys.executable, "-m", "ringtune.cli", "run", "-np", "2", "--no-prefix-output"]
    command = [*start, sys.executable, "-m", "benchmarks.engine.idle_cost", RANK, way]
    finished = subprocess.run(command, capture_output=True, text=True, check=True, timeout=LAUNCH_LIMIT_S)
    ranks = [json.loads(found) for found in re.findall(r"\{[^{}]*\}", finished.stdout)]  # two may share a line
    return max(rank["idle_s"] for rank in ranks), sum(rank["compute_s"] for rank in ranks) / len(ranks)


def main() -> None:
    """Measure and print, or be a rank."""
    parser = argparse.ArgumentParser(description="Measure the cost of an idle engine.")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument(RANK, metavar="WAY", help="be a rank of this way; `ringtune run` sets it")
    arguments = parser.parse_args()
    if arguments.rank:
        run_rank(arguments.rank)
        return
    order = random.Random(0)  # noqa: S311  (an order of turns, no secret)
    measured: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
    for _ in track(range(arguments.rounds), description="rounds", console=Console(stderr=True), transient=True):
        for way in order.sample(WAYS, len(WAYS)):
            measured[way].append(launch(way))
    table = Table("2 ranks", "processor time asleep, % of a core", "compute, s")
    for way, values in measured.items():
        idle_s, compute_s = (median(column) for column in zip(*values, strict=True))
        table.add_row(way, f"{100 * idle_s / SLEEP_S:.3f}", f"{compute_s:.3f}")
    pairs = zip(measured[WAYS[1]], measured[WAYS[0]], strict=True)
    console = Console()
    console.print(table)
    console.print(f"compute, with ÷ without: {median(ours[1] / theirs[1] for ours, theirs in pairs):.3f}")


if __name__ == "__main__":
    main()
