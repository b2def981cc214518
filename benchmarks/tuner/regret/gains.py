# SPDX-License-Identifier: Apache-2.0
"""Gain of the best config over the default that ships, without noise, for every job of this engine.

`python -m benchmarks.tuner.regret.gains` computes results/gains.csv anew in two minutes of one core; `python -m
benchmarks.tuner.regret.tables` then rewrites the pages. The best config of a simulated job is searched for
(`optima.py`), and that of a recorded surface is the fastest cell as all cells tell (`shrinkage.py`).
"""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import NamedTuple

from ringtune.tuner import Config, default_config

from .optima import search_optimum
from .problem import FLAT_GAIN, Problem
from .problems import Sources, problems_of
from .rows import FOLDER
from .simulated import SimulatedProblem
from .table import TableProblem

GAINS = FOLDER / "gains.csv"
DIGITS = 4
"""Digits after the point, of milliseconds."""


@dataclass(frozen=True)
class Gain:
    """A job's default beside its best config.

    Attributes:
        problem: The problem's name.
        kind: The problem's kind.
        hosts: Number of hosts.
        ranks: Number of ranks on all hosts.
        default: Default that ships, in this job's layout.
        settings: Values that the job itself sets in place of the default; it begins with them.
        begin_ms: True step time with which it begins, milliseconds.
        best: Config with the shortest true step.
        best_ms: True step time of the best config, milliseconds.
    """

    problem: str
    kind: str
    hosts: int
    ranks: int
    default: Config
    settings: Config
    begin_ms: float
    best: Config
    best_ms: float

    @property
    def gain(self) -> float:
        """Fraction by which the best config is faster than the job's first one."""
        return self.begin_ms / self.best_ms - 1.0


class Group(NamedTuple):
    """Jobs that share a line of the table.

    Attributes:
        name: The line's name.
        kind: The problems' kind.
        hosts: Numbers of hosts.
        has_settings: Whether they are jobs with settings of their own, or without; None for both.
    """

    name: str
    kind: str
    hosts: range
    has_settings: bool | None = False

    def has(self, row: Gain) -> bool:
        """Return whether a job belongs to it."""
        return row.kind == self.kind and row.hosts in self.hosts and self.has_settings in (None, bool(row.settings))


ANY = range(1, 1 << 20)
GROUPS = (
    Group("simulated, one host", "simulated", range(1, 2)),
    Group("simulated, 2 to 16 hosts", "simulated", range(2, 17)),
    Group("simulated, 64 hosts", "simulated", range(64, 65)),
    Group("simulated, with `fusion_bytes=0,cycle_ms=20` set", "simulated", ANY, has_settings=True),
    Group("all simulated", "simulated", ANY, has_settings=None),
    Group("recorded, one host", "recorded", range(1, 2)),
    Group("recorded, 2 hosts", "recorded", range(2, 3)),
)
"""Lines of the table."""


def gain_of(problem: SimulatedProblem | TableProblem) -> Gain:
    """Return the gain of a job of this engine."""
    if isinstance(problem, SimulatedProblem):
        best = search_optimum(problem.truth)
    else:
        best = min(problem.table.true_ms, key=problem.table.true_ms.__getitem__)
    default, layout = shipped_default(problem), problem.ranks_per_host
    settings = Config({name: value for name, value in problem.baseline.items() if value != default[name]})
    begin_ms, best_ms = (round(problem.step_ms(config), DIGITS) for config in (problem.baseline, best))
    return Gain(
        problem.name, problem.kind, len(layout), sum(layout), default, settings, begin_ms, Config(best), best_ms
    )


def shipped_default(problem: Problem) -> Config:
    """Return the default that ships in a job's layout, of the knobs that the job knows."""
    default = default_config(problem.ranks_per_host)
    return Config({name: value for name, value in default.items() if name in problem.baseline})


def own_problems() -> Iterator[SimulatedProblem | TableProblem]:
    """Yield this engine's jobs whose knobs have an effect: simulated, then recorded."""
    for kind in ("simulated", "recorded"):
        for problem in problems_of(Sources(), kind).values():
            if isinstance(problem, SimulatedProblem | TableProblem) and not problem.is_inert:
                yield problem


def write_gains(rows: Iterable[Gain], path: Path = GAINS) -> None:
    """Write rows as CSV, configs as JSON."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(Gain)], lineterminator="\n")
    writer.writeheader()
    for row in rows:
        configs = {name: json.dumps(getattr(row, name).to_json()) for name in ("default", "settings", "best")}
        writer.writerow({**asdict(row), **configs})
    path.write_text(text.getvalue(), encoding="utf-8")


def read_gains(path: Path = GAINS) -> list[Gain]:
    """Return the rows of a file."""
    with path.open(encoding="utf-8", newline="") as file:
        return [_gain(values) for values in csv.DictReader(file)]


def gains_table(rows: Sequence[Gain]) -> list[list[str]]:
    """Return the table, a line for each group of jobs."""
    head = ["jobs", "number", "best config faster by", "mean", f"by {100 * FLAT_GAIN:g} % or more"]
    return [head, *([group.name, *_cells([row for row in rows if group.has(row)])] for group in GROUPS)]


def main() -> None:
    """Compute the rows anew, and write them."""
    write_gains(gain_of(problem) for problem in own_problems())


def _gain(values: Mapping[str, str]) -> Gain:
    default, settings, best = (Config(json.loads(values[name])) for name in ("default", "settings", "best"))
    hosts, ranks = int(values["hosts"]), int(values["ranks"])
    begin_ms, best_ms = float(values["begin_ms"]), float(values["best_ms"])
    return Gain(values["problem"], values["kind"], hosts, ranks, default, settings, begin_ms, best, best_ms)


def _cells(rows: Sequence[Gain]) -> list[str]:
    gains = [100.0 * row.gain for row in rows]
    steep = sum(row.gain >= FLAT_GAIN for row in rows)
    return [str(len(rows)), f"{min(gains):.1f} to {max(gains):.1f} %", f"{sum(gains) / len(rows):.1f} %", str(steep)]


if __name__ == "__main__":
    main()
