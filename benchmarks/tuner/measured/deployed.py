# SPDX-License-Identifier: Apache-2.0
"""Deploy test: a config chosen on some machines of a cloud, judged on its others.

Start it by `python -m benchmarks.tuner.measured.deployed --data DIR`. The measurements are TUNA's (`tuna_*.csv.gz`):
one run of each config on each of several machines, and of the default on all. One machine has no repeats, so the
highest performance there is taken as it is. Several machines take the highest mean over the default's, if ringtune's
paired test, with a pair from each of them, says that it is faster. Every set of machines chooses once among the
configs that ran on all of them; the choice is judged on the machines that had no say.
"""

import argparse
import csv
import gzip
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import fmean

from rich.console import Console
from rich.table import Table

from ringtune.tuner.statistics.paired_test import Pair, speedup_interval

from .spaces import SUFFIX

FILE_WIDTH = 120
DEFAULT = "0"
"""Suggestion that is the default."""
LEAST_MACHINES = 7
"""Machines on which a config must have run: enough to choose and to judge."""
CHOOSING = (1, 2, 3)
"""Numbers of machines that choose."""
Runs = Mapping[str, Mapping[str, float]]
"""Performance by config and machine, higher is better, or gains."""


@dataclass(frozen=True)
class Choice:
    """A choice of some machines.

    Attributes:
        seen: Mean gain over the default on the machines that chose, a fraction.
        elsewhere: The same on the others; 0 where the default was kept.
        best: Mean gain of the best config there, a fraction.
        is_adopted: Whether the default was given up.
    """

    seen: float
    elsewhere: float
    best: float
    is_adopted: bool


def read_runs(path: Path) -> Runs:
    """Return the runs of configs that ran on enough machines, those that failed left out."""
    runs: dict[str, dict[str, float]] = {}
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if (performance := float(row["performance"])) > 0:
                runs.setdefault(row["suggestion"], {})[row["worker"]] = performance
    return {config: of for config, of in runs.items() if len(of) >= LEAST_MACHINES}


def choices(runs: Runs, machines: int) -> Iterator[Choice]:
    """Yield the choice of every set of so many machines."""
    gains = _gains(runs)
    for asked in combinations(sorted(runs[DEFAULT]), machines):
        if choice := _choice(gains, asked):
            yield choice


def _gains(runs: Runs) -> Runs:
    """Return the gain of every other config over the default, a fraction, by machine."""
    default = runs[DEFAULT]
    return {
        config: {machine: performance / default[machine] - 1.0 for machine, performance in of.items()}
        for config, of in runs.items()
        if config != DEFAULT
    }


def _choice(gains: Runs, asked: Sequence[str]) -> Choice | None:
    """Return the choice of some machines; None where no config ran on all of them."""
    seen = {config: fmean(of[m] for m in asked) for config, of in gains.items() if set(asked) <= set(of)}
    if not seen:
        return None
    elsewhere = {config: fmean(of[m] for m in set(of) - set(asked)) for config, of in gains.items()}
    chosen = max(seen, key=seen.__getitem__)
    pairs = [Pair(1.0 + gains[chosen][machine], 1.0) for machine in asked]
    is_adopted = len(asked) == 1 or speedup_interval(pairs).is_gain
    return Choice(seen[chosen], elsewhere[chosen] * is_adopted, max(elsewhere.values()), is_adopted)


def table_of(runs_by_name: Mapping[str, Runs]) -> Table:
    """Return the table: a line for each file and number of machines."""
    table = Table("measurements", "machines that choose", "choices", "adopted", "gain there", "elsewhere", "best there")
    for name, runs in runs_by_name.items():
        for machines in CHOOSING:
            found = list(choices(runs, machines))
            adopted = f"{100 * fmean(choice.is_adopted for choice in found):.0f} %"
            gains = (fmean(getattr(choice, of) for choice in found) for of in ("seen", "elsewhere", "best"))
            cells = (f"{100 * gain:+.0f} %" for gain in gains)
            table.add_row(name, str(machines), str(len(found)), adopted, *cells)
    return table


def main() -> None:
    """Print the table of all files that have enough machines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder with measured/tuna_*.csv.gz")
    folder = parser.parse_args().data / "measured"
    files = {path.name.removesuffix(SUFFIX): read_runs(path) for path in sorted(folder.glob(f"tuna_*{SUFFIX}"))}
    found = {name: runs for name, runs in files.items() if DEFAULT in runs}
    if not found:
        raise SystemExit(f"{folder} has no tuna_*{SUFFIX} in which configs ran on {LEAST_MACHINES} machines")
    Console(width=FILE_WIDTH).print(table_of(found))


if __name__ == "__main__":
    main()
