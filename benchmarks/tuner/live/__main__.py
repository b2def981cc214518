# SPDX-License-Identifier: Apache-2.0
"""Gain and cost of tuning a live job between two hosts, next to Horovod's scheme with equal steps.

Start it by `python -m benchmarks.tuner.live --target engine --link 1gbit`, as root, on a quiet machine. The hosts are
network namespaces of this machine; every run is a job of its own. Ringtune tunes one job, Horovod's scheme another for
equally many steps; both then measure their gain in pairs of windows. Runs are kept in a file and not repeated until the
tuner's sources change; runs of other sources are counted and left in the file.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from ringtune.errors import RingtuneError
from ringtune.measuring.bench.contestants import BenchEnvironment
from ringtune.measuring.bench.network import Network, check_hosts, joined_hosts, parse_rate
from ringtune.system.cache_files import user_cache_folder

from .report import render
from .run_file import RunFile
from .schemes import HOROVOD, RINGTUNE, SCHEMES
from .task import MARK, LiveTask

HOSTS = 2
RANKS = {"engine": 4, "ddp": 2}
"""The engine's hierarchical switch needs two ranks on a host; DDP's buckets do not."""
LAYERS = 24
WIDTHS = {"100mbit": 72, "1gbit": 224}
"""Width of a layer: 0.5 MiB and 4.6 MiB of weights, which the wire carries in about 40 ms either way."""
COMPUTE_MS = 15.0
LIMIT_S = 3600.0
_LINES_OF_ERROR = 20


@dataclass(frozen=True)
class LivePlan:
    """Settings of the runs; kept results must have been made with the same."""

    target: str
    link: str

    def task(self, scheme: str, seed: int, steps: int, address: str) -> LiveTask:
        """Return a run's task."""
        return LiveTask(scheme, seed, steps, LAYERS, WIDTHS[self.link], COMPUTE_MS, address)


def main() -> None:
    """Run the missing runs and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", choices=RANKS, required=True)
    parser.add_argument("--link", choices=WIDTHS, required=True)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--keep", type=Path, metavar="FILE", help="default: a file of the user's cache folder")
    arguments = parser.parse_args()
    plan = LivePlan(arguments.target, arguments.link)
    default = user_cache_folder(os.environ) / "live" / f"{plan.target}_{plan.link}.jsonl"
    path: Path = arguments.keep or default
    kept = RunFile(path)
    if kept.outdated:
        print(f"{path}: {kept.outdated} runs of other versions of the tuner are not looked at", file=sys.stderr)
    try:
        run_all(plan, kept, arguments.runs)
    except RingtuneError as error:
        raise SystemExit(str(error)) from error
    render([row for row in kept.rows if row["seed"] < arguments.runs], f"{plan.target}, {plan.link}")


def run_all(plan: LivePlan, kept: RunFile, runs: int) -> None:
    """Run the runs that the file does not have.

    Raises:
        RingtuneError: If a run fails.
    """
    ranks = RANKS[plan.target]
    check_hosts(HOSTS, ranks)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as progress:
        bar = progress.add_task(f"runs, {plan.target}, {plan.link}", total=runs * len(SCHEMES))
        for seed in range(runs):
            for scheme in (RINGTUNE, HOROVOD):
                found = {row["scheme"]: row for row in kept.rows if row["seed"] == seed}
                if scheme not in found:
                    steps = found[RINGTUNE]["steps"] if scheme == HOROVOD else 0
                    # Hosts are made anew for each, so that no run inherits a queue or a connection.
                    with joined_hosts(HOSTS, parse_rate(plan.link)) as network:
                        row = run_one(plan, network, plan.task(scheme, seed, steps, network.hosts[0].address))
                    kept.add({"scheme": scheme, "seed": seed, **row})
                progress.advance(bar)


def run_one(plan: LivePlan, network: Network, task: LiveTask) -> dict[str, Any]:
    """Run a job and return the config that its scheme found, with its gains.

    Raises:
        RingtuneError: If it fails.
    """
    ranks = RANKS[plan.target]
    program = (sys.executable, "-m", f"benchmarks.tuner.live.ranks.{plan.target}", task.argument())
    remote = ("-H", network.places(ranks), "--rsh", str(network.remote_shell), "--no-prefix-output")
    start = (sys.executable, "-m", "ringtune.cli", "run", "-np", str(ranks), *remote, *program)
    finished = subprocess.run(
        network.hosts[0].launcher_command(*start),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        env=BenchEnvironment(ranks, Path(), os.environ).cleaned,
        timeout=LIMIT_S,
    )
    lines = [line.removeprefix(MARK) for line in finished.stdout.splitlines() if line.startswith(MARK)]
    if finished.returncode != 0 or not lines:
        output: Sequence[str] = (finished.stdout + finished.stderr).strip().splitlines()[-_LINES_OF_ERROR:]
        text = "\n".join(output)
        raise RingtuneError(f"the run of {task.scheme} from seed {task.seed} failed; start again to go on\n{text}")
    row: dict[str, Any] = json.loads(lines[0])
    return row


if __name__ == "__main__":
    main()
