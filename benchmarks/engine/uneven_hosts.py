# SPDX-License-Identifier: Apache-2.0
"""Measure the gain of `skew` where one host's link is slower than the others', and that of `wire` on any links.

Start it by `python -m benchmarks.engine.uneven_hosts`, as root: hosts are network namespaces of this machine with one
rank each. A step is one allreduce. In each round the ring, the hierarchical allreduce with even shares, that with
skewed shares, and that with even ones whose gradients travel as bfloat16 have a window each, in a random order. Ratios
are of the same round, with the 95 % interval over the rounds. The bound counts bytes: a host that owns no share sends
and receives the message once.
"""

import argparse
import json
import os
import random
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from ringtune.measuring.bench.contestants import BenchEnvironment
from ringtune.measuring.bench.network import Network, joined_hosts
from ringtune.measuring.bench.paired_ratios import MIN_PAIRS, paired_ratio
from ringtune.measuring.bench.surface_assignment import Assignment
from ringtune.measuring.bench.workloads import Workload, WorkloadGradient
from ringtune.tuner import default_config
from ringtune.tuner.host_shares import even_time, skewed_time
from ringtune.tuner.space.parameters import can_skew

MIB = 2**20
RATE_BITS_PER_S = 10**9
LAUNCH_LIMIT_S = 900.0
WAYS: Mapping[str, Mapping[str, Any]] = {
    "ring": {"allreduce_algorithm": "ring"},
    "even": {"allreduce_algorithm": "hierarchical"},
    "skew": {"allreduce_algorithm": "hierarchical", "skew": True},
    "bf16": {"allreduce_algorithm": "hierarchical", "wire": "bf16"},
}


@dataclass(frozen=True)
class Shape:
    """Hosts with one slow link, and a message.

    Attributes:
        hosts: Number of hosts.
        slow_share: Rate of the last host's link as a share of the others'.
        size_bytes: Size of the message.
    """

    hosts: int
    slow_share: float
    size_bytes: int

    @property
    def bound(self) -> float:
        """Ratio of the bytes' time on the slowest link with even shares to that with skewed ones."""
        shares = [1.0] * (self.hosts - 1) + [self.slow_share]
        return even_time(shares) / skewed_time(shares) if can_skew((1,) * self.hosts) else 1.0


def measured(shape: Shape, rounds: int, window_ms: float, network: Network) -> Mapping[str, Sequence[float]]:
    """Launch a job and return the median step of each way's windows, milliseconds, one per round."""
    order = random.Random(0)  # noqa: S311  (an order of turns, no secret)
    turns = [name for _ in range(rounds) for name in order.sample(list(WAYS), len(WAYS))]
    base = default_config((1,) * shape.hosts)
    configs = tuple(base.replace(WAYS[name]).to_json() for name in turns)
    workload = Workload("message", (WorkloadGradient("g", shape.size_bytes // 4),))
    assignment = Assignment(workload.argument(), 0.0, window_ms, configs)
    program = [sys.executable, "-m", "ringtune.measuring.bench.surface_rank", assignment.argument()]
    environment = BenchEnvironment(shape.hosts, Path(), os.environ).cleaned
    finished = subprocess.run(
        [*network.run_command(shape.hosts), *program],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        env={**environment, "RINGTUNE_SKEW": "1"},  # the links are measured at the start
        timeout=LAUNCH_LIMIT_S,
    )
    if finished.returncode:
        raise SystemExit(f"{shape} ended with exit code {finished.returncode}\n{finished.stderr}")
    times: dict[str, list[float]] = {name: [] for name in WAYS}
    for line in finished.stdout.splitlines():
        if line.startswith('{"turn"'):
            record = json.loads(line)
            times[turns[record["turn"]]].append(median(record["step_ms"]))
    return times


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Measure the gain of skewed shares where one host's link is slow.")
    parser.add_argument("--rounds", type=int, default=9, help=f"rounds of each job, at least {MIN_PAIRS} (default: 9)")
    parser.add_argument("--window-ms", type=float, default=500.0, help="about how long a window is (default: 500)")
    parser.add_argument("--hosts", type=int, nargs="+", default=[3, 4], help="numbers of hosts (default: 3 4)")
    parser.add_argument("--slow", type=float, nargs="+", default=[0.5, 0.7, 0.9, 1.0], help="shares of 1 Gbit/s")
    parser.add_argument("--mib", type=int, nargs="+", default=[16, 64], help="sizes of the message, MiB")
    arguments = parser.parse_args()
    if arguments.rounds < MIN_PAIRS:
        parser.error(f"there must be at least {MIN_PAIRS} rounds, for an interval")
    names = ("hosts", "slow link", "MiB", *(f"{name}, ms" for name in WAYS))
    table = Table(*names, "ring ÷ skew", "even ÷ skew", "bound", "even ÷ bf16")
    shapes = [Shape(h, s, m * MIB) for h in arguments.hosts for s in arguments.slow for m in arguments.mib]
    console = Console(width=150)
    for shape in shapes:
        with joined_hosts(shape.hosts, RATE_BITS_PER_S) as network:
            network.set_rate(shape.hosts - 1, round(shape.slow_share * RATE_BITS_PER_S))
            times = measured(shape, arguments.rounds, arguments.window_ms, network)
        ratios = [paired_ratio(times[name], times["skew"]) for name in ("ring", "even")]
        rounded = paired_ratio(times["even"], times["bf16"])
        cells = (
            str(shape.hosts),
            f"{shape.slow_share:g}",
            str(shape.size_bytes // MIB),
            *(f"{median(times[name]):.4g}" for name in WAYS),
            *(f"{ratio.median:.3f} ({ratio})" for ratio in ratios),
            f"{shape.bound:.3f}",
            f"{rounded.median:.3f} ({rounded})",
        )
        table.add_row(*cells)
        console.print(" | ".join(cells), highlight=False, soft_wrap=True)
    console.print(table)


if __name__ == "__main__":
    main()
