# SPDX-License-Identifier: Apache-2.0
"""Gain and cost of tuning real training jobs, by network: a zoo of nets, front ends, delays, rates, and hosts.

    python -m benchmarks.tuner.live [--only TEXT] [--cells N] [--seeds N] [--schemes ...] [--minutes M]

Run it as root on a quiet machine. Hosts are network namespaces of this machine, and every run is a job of its own with
cold caches. A job trains under `AUTOTUNE=1` until the verdict. On the engine's own front end the same job then measures
the gain anew, and searches long for the best config there is; Horovod's scheme tunes another job for as many steps.
Runs are kept in a file and not repeated until the tuner's sources change.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ringtune.errors import RingtuneError
from ringtune.measuring.bench.contestants import BenchEnvironment
from ringtune.measuring.bench.network import INTERFACE, DelaySwitch, Network, check_hosts, joined_hosts, parse_rate
from ringtune.measuring.bench.network_contestants import find_delay_switch
from ringtune.system.cache_files import user_cache_folder
from ringtune.tuner import read_log
from ringtune.tuner.review.summary import review_run

from .cells import ENGINE, Cell, zoo
from .report import gain_figure, render
from .run_file import RunFile
from .task import HOROVOD, MARK, RINGTUNE, SCHEMES, LiveTask

LIMIT_S = 3600.0
_LINES_OF_ERROR = 20

Row = dict[str, Any]


def parse_arguments() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="TEXT", help="cells whose name contains it, such as '5 ms'")
    parser.add_argument("--cells", type=int, default=None, metavar="N", help="the first so many of these; default: all")
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="runs of each; default: 1")
    parser.add_argument("--schemes", nargs="+", choices=SCHEMES, default=SCHEMES, help="default: both")
    parser.add_argument("--minutes", type=float, default=None, metavar="M", help="begin no run after so many minutes")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="default: a file of the user's cache folder")
    parser.add_argument("--figure", type=Path, metavar="FILE", help="write the map of gains there, a page")
    return parser.parse_args()


def main() -> None:
    """Run the missing runs and print the tables."""
    given = parse_arguments()
    path: Path = given.keep or user_cache_folder(os.environ) / "live" / "zoo.jsonl"
    kept = RunFile(path)
    if kept.outdated:
        print(f"{path}: {kept.outdated} runs of other versions of the tuner are not looked at", file=sys.stderr)
    cells = list(islice((cell for cell in zoo() if given.only in cell.name), given.cells))
    try:
        run_all(missing(cells, kept, given.seeds, given.schemes), kept, given.minutes)
    except RingtuneError as error:
        raise SystemExit(str(error)) from error
    names = {cell.name for cell in cells}
    show([row for row in kept.rows if row["cell"] in names], given.figure)


def show(rows: Sequence[Row], figure: Path | None) -> None:
    """Print the tables, and write the map."""
    render(rows, Console(width=None if sys.stdout.isatty() else 220))
    if figure is not None:
        gain_figure(rows).write_html(figure, config={"displayModeBar": False})


def missing(
    cells: Sequence[Cell], kept: RunFile, seeds: int, schemes: Sequence[str]
) -> Sequence[tuple[Cell, int, str]]:
    """Return the runs that the file does not have; Horovod's scheme has the engine alone to tune."""
    known = {(row["cell"], row["seed"], row["scheme"]) for row in kept.rows}
    wanted = [(cell, seed, scheme) for seed in range(seeds) for scheme in schemes for cell in cells]
    return [
        (cell, seed, scheme)
        for cell, seed, scheme in wanted
        if (scheme == RINGTUNE or cell.front == ENGINE) and (cell.name, seed, scheme) not in known
    ]


def run_all(runs: Sequence[tuple[Cell, int, str]], kept: RunFile, minutes: float | None) -> None:
    """Run all of them, as far as the time allows.

    Raises:
        RingtuneError: If a run fails.
    """
    begin_s = time.monotonic()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        bar = progress.add_task("runs", total=len(runs))
        for cell, seed, scheme in runs:
            if minutes is not None and time.monotonic() - begin_s > 60 * minutes:
                return
            progress.update(bar, description=f"{cell.name}, {scheme}")
            steps = tuned_steps(kept, cell, seed) if scheme == HOROVOD else 0
            with hosts_of(cell) as network:  # made anew, so that no run inherits a queue or a connection
                row = run_one(cell, network, LiveTask(cell.net, cell.front, scheme, seed, steps))
            kept.add({"cell": cell.name, "scheme": scheme, "seed": seed, **row})
            progress.advance(bar)


def tuned_steps(kept: RunFile, cell: Cell, seed: int) -> int:
    """Return the steps that ringtune took, which are Horovod's budget.

    Raises:
        RingtuneError: If ringtune has not run there.
    """
    for row in kept.rows:
        if (row["cell"], row["seed"], row["scheme"]) == (cell.name, seed, RINGTUNE):
            return int(row["steps"])
    raise RingtuneError(f"Horovod's scheme gets as many steps as ringtune took, which has not run in {cell.name}")


@contextmanager
def hosts_of(cell: Cell) -> Iterator[Network]:
    """Give the hosts and links of a cell.

    Raises:
        RingtuneError: If they cannot be made.
    """
    check_hosts(cell.hosts, cell.ranks)
    switch = find_delay_switch(cell.delay_ms, BenchEnvironment(cell.ranks, Path(), os.environ))
    if switch is not None:
        switch = DelaySwitch(switch.program, switch.delay_ms, cell.lost_share)
    rate = parse_rate(cell.link)
    with joined_hosts(cell.hosts, rate, switch) as network:
        if cell.slow_share < 1:
            network.set_rate(cell.hosts - 1, round(cell.slow_share * rate))
        yield network


def run_one(cell: Cell, network: Network, task: LiveTask) -> Row:
    """Run a job and return what its tuner found, with its gain.

    Raises:
        RingtuneError: If it fails.
    """
    program = (sys.executable, "-m", "benchmarks.tuner.live.ranks.training", task.argument())
    with tempfile.TemporaryDirectory(prefix="ringtune-live-") as folder:
        log = Path(folder) / "log.jsonl"
        finished = subprocess.run(
            [*network.run_command(cell.ranks), *program],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            env={**BenchEnvironment(cell.ranks, Path(), os.environ).cleaned, **variables(task, log)},
            timeout=LIMIT_S,
        )
        lines = [line.removeprefix(MARK) for line in finished.stdout.splitlines() if line.startswith(MARK)]
        if finished.returncode != 0 or (cell.front == ENGINE and not lines):
            output = "\n".join((finished.stdout + finished.stderr).strip().splitlines()[-_LINES_OF_ERROR:])
            raise RingtuneError(f"{cell.name}, {task.scheme}: the run failed; start again to go on\n{output}")
        measured: Row = json.loads(lines[0]) if lines else {}
        return {**(tuned(log) if task.scheme == RINGTUNE else {}), **measured}


def variables(task: LiveTask, log: Path) -> Mapping[str, str]:
    """Return the variables of a job that a user tunes, from a cold cache."""
    fresh = {"XDG_CACHE_HOME": str(log.parent), "GLOO_SOCKET_IFNAME": INTERFACE}
    if task.scheme == HOROVOD:
        return fresh
    return {**fresh, "AUTOTUNE": "1", "AUTOTUNE_LOG": str(log), "AUTOTUNE_SEED": str(task.seed)}


def tuned(log: Path) -> Row:
    """Return the first decision of a job's tuner, and what it took; the end of the job may have given it up since."""
    first = read_log(log).runs[0]
    first.end = None if first.result is not None else first.end
    run = review_run(first)
    baseline, _ = run.steps_per_s
    gain = {"speedup": 0.0, "low": 0.0, "high": 0.0}
    if run.adopted and run.speedup is not None:
        gain = {"speedup": run.speedup, "low": run.ci_low or 0.0, "high": run.ci_high or 0.0}
    return {
        "verdict": run.verdict,
        "baseline": {} if run.baseline is None else run.baseline.to_json(),
        "adopted": run.adopted,
        "steps": run.steps,
        "seconds": round(run.seconds, 2),
        "cost_s": 0.0 if run.cost_s is None else round(run.cost_s, 3),
        "gain": {
            "config": None if run.chosen is None else run.chosen.to_json(),
            "baseline_ms": None if baseline is None else 1e3 / baseline,
            **gain,
        },
    }


if __name__ == "__main__":
    main()
