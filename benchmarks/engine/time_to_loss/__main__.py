# SPDX-License-Identifier: Apache-2.0
"""Time until a model is good enough: ringtune's ways against DDP on Gloo with the best of its bucket sizes.

    PYTHONPATH=examples python -m benchmarks.engine.time_to_loss [--hosts 1 2] [--seeds 6]

Two ranks learn three tasks from data that packages ship. The bucket size is that of the quickest of one run each. Then
all ways train with every seed, in changing order; each run is a fresh job. Hosts are network namespaces of this machine
with one rank each, joined at 1 Gbit/s, which needs root. A ratio is of runs with one seed, with its 95 % interval.
"""

import argparse
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from ringtune.measuring.bench.contestants import BenchEnvironment
from ringtune.measuring.bench.network import INTERFACE, Network, joined_hosts
from ringtune.measuring.bench.paired_ratios import MIN_PAIRS, paired_ratio

RANKS = 2
RATE_BITS_PER_S = 10**9
LAUNCH_LIMIT_S = 900.0
BUCKETS_MB = (1, 5, 25, 100)
OURS = ("ringtune", "optimizer")
TASKS = ("digits", "characters", "table")

Learned = Mapping[str, Any]


@contextmanager
def place(hosts: int) -> Iterator[Network | None]:
    """Give a network of so many hosts; None for this machine as it is."""
    if hosts == 1:
        yield None
        return
    with joined_hosts(hosts, RATE_BITS_PER_S) as network:
        yield network


def learn(network: Network | None, task: str, way: str, seed: int) -> Learned:
    """Run a job; return its seconds and steps."""
    program = [sys.executable, "-m", "benchmarks.engine.time_to_loss.learner", task, way, str(seed)]
    here = [sys.executable, "-m", "ringtune.cli", "run", "-np", str(RANKS), "--no-prefix-output"]
    command = [*(here if network is None else network.run_command(RANKS)), *program]
    environment = {**BenchEnvironment(RANKS, Path(), os.environ).cleaned, "PYTHONPATH": "examples"}
    if network is not None:
        environment["GLOO_SOCKET_IFNAME"] = INTERFACE
    finished = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, env=environment,
        timeout=LAUNCH_LIMIT_S,
    )  # fmt: skip
    if finished.returncode:
        raise SystemExit(f"{task} by {way} ended with exit code {finished.returncode}\n{finished.stderr}")
    found: Learned = json.loads(next(line for line in finished.stdout.splitlines() if line.startswith('{"seconds"')))
    return found


def best_bucket(network: Network | None, task: str) -> str:
    """Return DDP's way with the size that is quickest."""
    ways = [f"gloo:{size}" for size in BUCKETS_MB]
    return min(ways, key=lambda way: float(learn(network, task, way, 0)["seconds"]))


def compared(network: Network | None, task: str, seeds: int) -> tuple[str, dict[str, list[Learned]]]:
    """Return DDP's best way, and the results of every way, by seed."""
    best, order = best_bucket(network, task), random.Random(0)  # noqa: S311  (an order of turns, no secret)
    ways: Sequence[str] = (best, *OURS)
    found: dict[str, list[Learned]] = {way: [] for way in ways}
    for seed in range(seeds):
        for way in order.sample(ways, len(ways)):
            found[way].append(learn(network, task, way, seed))
    return best, found


def row_of(task: str, hosts: int, best: str, found: Mapping[str, Sequence[Learned]]) -> tuple[str, ...]:
    """Return the cells of a task: steps of each way, seconds, and ratios of runs with one seed."""
    seconds = {way: [float(run["seconds"]) for run in runs] for way, runs in found.items()}
    ratios = {way: paired_ratio(seconds[best], seconds[way]) for way in OURS}
    steps = [f"{sum(int(run['steps']) for run in runs) / len(runs):.0f}" for runs in found.values()]
    shown = [f"{median(seconds[way]):.3g}; {ratios[way].median:.2f} ({ratios[way]})" for way in OURS]
    return task, str(hosts), " ".join(steps), f"{best.removeprefix('gloo:')} MB", f"{median(seconds[best]):.3g}", *shown


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Time until a model is good enough, against DDP on Gloo.")
    parser.add_argument("--hosts", type=int, nargs="+", default=[1, 2], choices=[1, 2], help="default: 1 2")
    parser.add_argument("--tasks", nargs="+", default=TASKS, choices=TASKS, help="default: all")
    parser.add_argument("--seeds", type=int, default=MIN_PAIRS, help=f"at least {MIN_PAIRS}, for an interval")
    given = parser.parse_args()
    if given.seeds < MIN_PAIRS:
        parser.error(f"there must be at least {MIN_PAIRS} seeds, for an interval")
    table = Table("task", "hosts", "steps", "DDP's bucket", "DDP, s", *(f"{way}, s; DDP ÷ {way}" for way in OURS))
    console = Console(width=150)
    for hosts in given.hosts:
        with place(hosts) as network:
            for task in given.tasks:
                best, found = compared(network, task, given.seeds)
                cells = row_of(task, hosts, best, found)
                table.add_row(*cells)
                console.print(" | ".join(cells), highlight=False, soft_wrap=True)
    console.print(table)


if __name__ == "__main__":
    main()
