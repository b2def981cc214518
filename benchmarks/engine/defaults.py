# SPDX-License-Identifier: Apache-2.0
"""Compare the built-in defaults with other values of single parameters, on jobs of different shape.

Start it by `python -m benchmarks.engine.defaults`, as root for the jobs between hosts (network namespaces of this
machine). Each job is one launch of the surface recorder's ranks: steps that compute on the processor and submit their
gradients meanwhile. In each round, every candidate and the default have a window, in a random order. The table has each
candidate's step time divided by the default's of the same round, with the 95 % interval over the rounds.
"""

import argparse
import json
import os
import random
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from ringtune.errors import RingtuneError
from ringtune.measuring.bench.contestants import BenchEnvironment
from ringtune.measuring.bench.network import Network, joined_hosts, parse_rate
from ringtune.measuring.bench.network_contestants import find_delay_switch
from ringtune.measuring.bench.paired_ratios import MIN_PAIRS, Ratio, paired_ratio
from ringtune.measuring.bench.surface_assignment import Assignment
from ringtune.measuring.bench.workloads import Workload, WorkloadGradient
from ringtune.tuner import Config, default_config

KIB = 1024
LAUNCH_LIMIT_S = 600.0
DEFAULT = "default"
FLAT = "hierarchical_allreduce=off"
CANDIDATES: Mapping[str, Mapping[str, Any]] = {
    "cycle_ms=0.3": {"cycle_ms": 0.3},
    "cycle_ms=3": {"cycle_ms": 3.0},
    "cycle_ms=10": {"cycle_ms": 10.0},
    "fusion_bytes=4 MiB": {"fusion_bytes": 4096 * KIB},
    FLAT: {"hierarchical_allreduce": False},
}
FAR_CANDIDATES: Mapping[str, Mapping[str, Any]] = {
    "cycle_ms=5": {"cycle_ms": 5.0},
    "cycle_ms=10": {"cycle_ms": 10.0},
    "cycle_ms=20": {"cycle_ms": 20.0},
    "cycle_ms=50": {"cycle_ms": 50.0},
}
"""Candidates of jobs whose hosts are far from each other."""
ALL_CANDIDATES = {**CANDIDATES, **FAR_CANDIDATES}

SHAPES_KIB: Mapping[str, Sequence[int]] = {
    "8 large": (4096,) * 8,
    "300 small": (4,) * 300,
    "96 mixed": (1, 256) * 48,
}
"""Gradients of a step, KiB each, in the order in which they become ready."""


@dataclass(frozen=True)
class Shape:
    """A job's shape.

    Attributes:
        gradients: Key of `SHAPES_KIB`.
        compute_ms: Processor time of a step, milliseconds.
        ranks_per_host: Ranks of each host.
        link: Rate of each host's link; None on one host.
        delay_ms: Delay from one host to another; 0: that of the kernel's bridge.
    """

    gradients: str
    compute_ms: float
    ranks_per_host: tuple[int, ...]
    link: str | None = None
    delay_ms: float = 0.0

    @property
    def title(self) -> str:
        """Name for the table."""
        layout = " + ".join(map(str, self.ranks_per_host))
        delay = f", {self.delay_ms:g} ms" if self.delay_ms else ""
        link = f", {self.link}{delay}" if self.link else ""
        return f"{self.gradients}, {self.compute_ms:g} ms, {layout} ranks{link}"

    @property
    def workload(self) -> Workload:
        """Gradients for the ranks."""
        sizes = enumerate(SHAPES_KIB[self.gradients])
        return Workload("step", tuple(WorkloadGradient(f"g{number}", size * KIB // 4) for number, size in sizes))

    @property
    def candidates(self) -> Sequence[str]:
        """Candidates with an effect in this layout."""
        if self.delay_ms > 0:
            return list(FAR_CANDIDATES)
        has_hierarchy = len(self.ranks_per_host) > 1 and max(self.ranks_per_host) > 1
        return [name for name in CANDIDATES if has_hierarchy or name != FLAT]


SHAPES = (
    Shape("8 large", 60.0, (2,)),
    Shape("8 large", 5.0, (2,)),
    Shape("300 small", 40.0, (2,)),
    Shape("300 small", 3.0, (2,)),
    Shape("300 small", 20.0, (4,)),
    Shape("96 mixed", 40.0, (4,)),
    Shape("96 mixed", 40.0, (1, 1), "1gbit"),
    Shape("96 mixed", 40.0, (2, 2), "1gbit"),
    Shape("300 small", 20.0, (2, 2), "100mbit"),
    Shape("8 large", 20.0, (2, 2), "10gbit"),
    Shape("96 mixed", 40.0, (1, 2), "1gbit"),
    Shape("96 mixed", 40.0, (4, 4), "1gbit"),
    Shape("8 large", 20.0, (2, 2, 2), "10gbit"),
    Shape("96 mixed", 40.0, (1, 1), "1gbit", 0.5),
    Shape("300 small", 20.0, (1, 1), "1gbit", 0.5),
    Shape("8 large", 60.0, (1, 1), "1gbit", 0.5),
    Shape("96 mixed", 40.0, (1, 1), "1gbit", 2.0),
    Shape("8 large", 60.0, (1, 1), "1gbit", 2.0),
    Shape("96 mixed", 40.0, (1, 1), "1gbit", 5.0),
    Shape("300 small", 20.0, (2, 2), "1gbit", 5.0),
    Shape("8 large", 60.0, (1, 1), "1gbit", 5.0),
    Shape("96 mixed", 40.0, (1, 1, 1), "1gbit", 5.0),
    Shape("96 mixed", 40.0, (1, 1), "1gbit", 20.0),
    Shape("96 mixed", 200.0, (1, 1), "1gbit", 20.0),
    Shape("8 large", 60.0, (1, 1), "5gbit", 20.0),
)


def config_of(name: str, ranks_per_host: Sequence[int]) -> Config:
    """Return a candidate's config in a layout."""
    return default_config(ranks_per_host).replace(ALL_CANDIDATES.get(name, {}))


def command_of(shape: Shape, turns: Sequence[str], window_ms: float, network: Network | None) -> list[str]:
    """Return the command that launches a job, whose windows are under the candidates in turn."""
    configs = tuple(config_of(name, shape.ranks_per_host).to_json() for name in turns)
    assignment = Assignment(shape.workload.argument(), shape.compute_ms, window_ms, configs)
    ranks = sum(shape.ranks_per_host)
    remote = [] if network is None else ["-H", _places(shape, network), "--rsh", str(network.remote_shell)]
    start = [sys.executable, "-m", "ringtune.cli", "run", "-np", str(ranks), *remote, "--no-prefix-output"]
    command = [*start, sys.executable, "-m", "ringtune.measuring.bench.surface_rank", assignment.argument()]
    return command if network is None else network.hosts[0].launcher_command(*command)


def _places(shape: Shape, network: Network) -> str:
    hosts = zip(network.hosts, shape.ranks_per_host, strict=True)
    return ",".join(f"{host.address}:{ranks}" for host, ranks in hosts)


def measured(shape: Shape, rounds: int, window_ms: float, network: Network | None) -> Mapping[str, Sequence[float]]:
    """Launch a job and return the median step of each candidate's windows and the default's, one per round."""
    order = random.Random(0)  # noqa: S311  (an order of turns, no secret)
    names = [DEFAULT, *shape.candidates]
    turns = [name for _ in range(rounds) for name in order.sample(names, len(names))]
    finished = subprocess.run(
        command_of(shape, turns, window_ms, network),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        env=BenchEnvironment(sum(shape.ranks_per_host), Path(), os.environ).cleaned,
        timeout=LAUNCH_LIMIT_S,
    )
    if finished.returncode:
        raise SystemExit(f"{shape.title} ended with exit code {finished.returncode}\n{finished.stderr}")
    times: dict[str, list[float]] = {name: [] for name in names}
    for line in finished.stdout.splitlines():
        if line.startswith('{"turn"'):
            record = json.loads(line)
            times[turns[record["turn"]]].append(median(record["step_ms"]))
    return times


def hosts_of(shape: Shape) -> AbstractContextManager[Network | None]:
    """Return the context in which a job's hosts are there; None for one host."""
    if shape.link is None:
        return nullcontext()
    switch = find_delay_switch(shape.delay_ms, BenchEnvironment(sum(shape.ranks_per_host), Path(), os.environ))
    return joined_hosts(len(shape.ranks_per_host), parse_rate(shape.link), switch)


def ratios_of(times: Mapping[str, Sequence[float]]) -> Mapping[str, Ratio]:
    """Return each candidate's ratio to the default."""
    return {name: paired_ratio(own, times[DEFAULT]) for name, own in times.items() if name != DEFAULT}


def verdicts(found: Sequence[Mapping[str, Ratio]]) -> Sequence[str]:
    """Return a sentence per candidate: in how many of the jobs it is faster or slower, by its intervals."""
    lines = []
    for name in ALL_CANDIDATES:
        ratios = [ratios[name] for ratios in found if name in ratios]
        faster, slower = sum(ratio.high < 1 for ratio in ratios), sum(ratio.low > 1 for ratio in ratios)
        lines.append(f"{name}: faster in {faster} of {len(ratios)} jobs, slower in {slower}")
    return lines


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Compare the built-in defaults with other values.")
    parser.add_argument("--rounds", type=int, default=9, help=f"rounds of each job, at least {MIN_PAIRS} (default: 9)")
    parser.add_argument("--window-ms", type=float, default=300.0, help="about how long a window is (default: 300)")
    parser.add_argument("--jobs", type=int, nargs="+", metavar="N", help="rows of the table to measure (default: all)")
    arguments = parser.parse_args()
    if arguments.rounds < MIN_PAIRS:
        parser.error(f"there must be at least {MIN_PAIRS} rounds, for an interval")
    console = Console(width=150)
    found: list[Mapping[str, Ratio]] = []
    table = Table("", "job", "default, ms", *(f"{name} ÷ default" for name in ALL_CANDIDATES))
    for number, shape in enumerate(SHAPES, start=1):
        if arguments.jobs and number not in arguments.jobs:
            continue
        try:
            with hosts_of(shape) as network:
                times = measured(shape, arguments.rounds, arguments.window_ms, network)
        except RingtuneError as error:
            table.add_row(str(number), shape.title, f"not measured: {error}")
            continue
        ratios = ratios_of(times)
        found.append(ratios)
        cells = [f"{ratios[name].median:.2f} ({ratios[name]})" if name in ratios else "" for name in ALL_CANDIDATES]
        table.add_row(str(number), shape.title, f"{median(times[DEFAULT]):.3g}", *cells)
        console.print(f"{number}. {shape.title}: {', '.join(cells)}", highlight=False, soft_wrap=True)
    console.print(table)
    for line in verdicts(found):
        console.print(line)


if __name__ == "__main__":
    main()
