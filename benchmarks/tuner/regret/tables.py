# SPDX-License-Identifier: Apache-2.0
"""Makes the tables of README.md, of this folder's and of docs/howto/tuning_budget.md from the raw rows in results/.

`python -m benchmarks.tuner.regret.tables` rewrites them between their marks; `--take FILE` first takes in the outcomes
of a file of `python -m benchmarks.regret --keep FILE`. A test fails when a table and its rows disagree, or when rows
began at another default than the one that ships.
"""

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from .gains import Gain, gains_table, read_gains
from .problem import NEAR
from .problems import Sources, all_problems
from .report import STANDARD_ERRORS, WORSE
from .rows import CONTROL, RING_CONTROL, RING_RUNS, RUNS, Row, of_rival, read_rows, rows_of, write_rows
from .simulated import INERT_PREFIX

ROOT = Path(__file__).parents[3]
PAGES = (ROOT / "README.md", Path(__file__).parent / "README.md", ROOT / "docs" / "howto" / "tuning_budget.md")
MARKED = re.compile(r"<!-- table: (?P<name>[\w ,]+) -->\n.*?<!-- end of table -->", re.DOTALL)
OURS, UNSET, BEFORE = "ringtune", "ringtune, nothing set", "ringtune, 20 samples"
BUDGETS = (100, 200, 300, 600)
SUMMARY_BUDGET = 300
"""Budget of the summary, steps."""
SUMMARY = (
    *(OURS, "ringtune, no prior", "optuna tpe", "optuna cma-es", "optuna gp", "smac", "botorch", "horovod"),
    *("random", "random, cut and tested", "baseline"),
)
"""Rivals of the summary; the whole table has all."""
SCATTER = (0.0, 0.015, 0.045, 0.1, 0.15)
"""Bounds of how much steps scatter, as a standard deviation of ln(step time)."""
NAMES: Mapping[str, str] = {
    "ringtune": "ringtune",
    "ringtune, steps alone": "ringtune, `AUTOTUNE_MAX_STEPS` alone",
    "ringtune, no prior": "ringtune without its prior",
    "ringtune, false prior": "ringtune with a false prior",
    "ringtune, warm": "ringtune, job known from earlier runs",
    "gp, untested": "ringtune's search alone",
    "optuna tpe": "TPE",
    "optuna cma-es": "CMA-ES",
    "optuna gp": "Optuna's Gaussian process",
    "skopt": "scikit-optimize's expected improvement",
    "skopt gp_hedge": "scikit-optimize's gp_hedge",
    "smac": "SMAC3",
    "hebo": "HEBO",
    "botorch": "BoTorch",
    "bagua": "Bagua's scheme",
    "random": "random search",
    "grid": "grid search",
    "horovod": "Horovod's scheme",
    "optuna tpe, cut and tested": "TPE, cut and tested",
    "optuna cma-es, cut and tested": "CMA-ES, cut and tested",
    "optuna gp, cut and tested": "Optuna's Gaussian process, cut and tested",
    "skopt, cut and tested": "scikit-optimize, cut and tested",
    "random, cut and tested": "random search, cut and tested",
    "cost model alone": "the cost model alone",
    "baseline": "the default",
}
"""Rivals as the tables call them, in their order; those without rows are left out."""
KINDS: Mapping[str, tuple[str, ...]] = {
    "all": ("simulated", "drawn", "recorded", "public"),
    **{kind: (kind,) for kind in ("simulated", "drawn", "recorded", "public")},
}
PARTS: Mapping[str, str] = {
    "simulated": "simulated, chosen",
    "drawn": "simulated, drawn by a rule",
    "recorded": "recorded",
    "public": "public tables",
    "all": "all together",
}
"""Rows of a table that has one for each kind of problem, with their names."""
RING = "flat ring"
"""Name of the tables of runs that began at the flat ring."""


def counting(control: Sequence[Row]) -> frozenset[str]:
    """Return the problems that random search misses in half of its runs, as the rows of the control say."""
    misses: dict[str, list[bool]] = {}
    for row in control:
        misses.setdefault(row.problem, []).append(row.regret > NEAR)
    return frozenset(name for name, missed in misses.items() if np.mean(missed) >= 0.5)


class Tables:
    """All tables, by name."""

    def __init__(
        self, runs: Sequence[Row], control: Sequence[Row], gains: Sequence[Gain] = (), ring: "Tables | None" = None
    ) -> None:
        """Take the raw rows.

        Args:
            runs: Rows of runs that began at today's default.
            control: Rows of their control.
            gains: Gains over today's default.
            ring: Tables of runs that began at the flat ring.
        """
        counted = counting(control)
        self._control = control
        self._gains = gains
        self._ring = ring
        self._searched = [row for row in runs if row.problem in counted]
        self._every = runs

    def table(self, name: str) -> str:
        """Return a table in Markdown by its name: its contents, and its problems, such as `regret, all`."""
        what, _, kind = name.partition(", ")
        if kind == RING and self._ring is not None:
            return self._ring.table(f"{what}, all").replace("the default", "the flat ring")
        made: Mapping[str, Callable[[str], list[list[str]]]] = {
            "regret": self._regret,
            "paired": self._paired,
            "unset": self._unset,
            "summary": self._summary,
            "safety": self._safety,
            "control": self._settled,
            "scatter": self._by_scatter,
            "gains": lambda _: gains_table(self._gains),
        }
        return _markdown(made[what](kind))

    def _of(self, kind: str) -> list[Row]:
        return [row for row in self._searched if row.kind in KINDS[kind]]

    def _regret(self, kind: str) -> list[list[str]]:
        """Return mean regret with its standard error and the share of runs near the optimum, by rival and budget."""
        rows = self._of(kind)
        lines = [["", "problems", "seeds", "100 steps", *map(str, BUDGETS[1:])]]
        for rival in _present(rows):
            mine = of_rival(rows, rival)
            cells = [_regret_cell([row for row in mine if row.budget == budget]) for budget in BUDGETS]
            counts = (str(len({getattr(row, of) for row in mine})) for of in ("problem", "seed"))
            lines.append([NAMES[rival], *counts, *cells])
        return lines

    def _summary(self, kind: str) -> list[list[str]]:
        """Return each rival's regret at one budget, and the share of its picks that are slower, at all of them."""
        lines = [["", "seeds", f"regret after {SUMMARY_BUDGET} steps", "within 2 %", "picks over 1 % slower"]]
        searched, every = self._of(kind), [row for row in self._every if row.kind in KINDS[kind]]
        for rival in (rival for rival in _present(searched) if rival in SUMMARY):
            mine = [row for row in of_rival(searched, rival) if row.budget == SUMMARY_BUDGET]
            regret, near = _regret_cell(mine).split(", ")
            slower = [row.loss > WORSE for row in of_rival(every, rival)]
            seeds = str(len({row.seed for row in mine}))
            lines.append([NAMES[rival], seeds, regret, near, f"{sum(slower):,} of {len(slower):,}"])
        return lines

    def _paired(self, kind: str) -> list[list[str]]:
        """Return how much larger each rival's regret is than ours, on the same problems and seeds."""
        rows = self._of(kind)
        ours = {(row.problem, row.seed, row.budget): row.regret for row in of_rival(rows, OURS)}
        lines = [["", "100 steps", *map(str, BUDGETS[1:])]]
        for rival in _present(rows)[1:]:
            cells = []
            for budget in BUDGETS:
                both = [row for row in of_rival(rows, rival) if (row.problem, row.seed, budget) in ours]
                cells.append(_paired_cell([r for r in both if r.budget == budget], ours))
            lines.append([NAMES[rival], *cells])
        return lines

    def _unset(self, kind: str) -> list[list[str]]:
        """Return the regret of a job without settings, and the steps and seconds of its decision, by kind of job."""
        lines = [["jobs", "problems", "seeds", "regret", "steps, median and most", "seconds, median and most"]]
        parts = {
            name: of_rival(self._of(part), UNSET)
            for part, name in PARTS.items()
            if set(KINDS[part]) <= set(KINDS[kind])
        }
        parts["the same with 20 samples, the default before"] = of_rival(self._of(kind), BEFORE)
        return [*lines, *(_spent_line(name, rows) for name, rows in parts.items() if rows)]

    def _safety(self, kind: str) -> list[list[str]]:
        """Return the effects of picks on jobs, those without a gain included, and the search's cost."""
        lines = [
            [
                "",
                "problems",
                "runs",
                "over 1 % slower than the default",
                "most slower",
                "changed where knobs do nothing",
                "steps while tuning ÷ the default's",
            ]
        ]
        rows = [row for row in self._every if row.kind in KINDS[kind]]
        by_rival = {rival: of_rival(rows, rival) for rival in (*_present(rows), UNSET)}
        return [*lines, *(_safety_line(NAMES.get(rival, UNSET), mine) for rival, mine in by_rival.items() if mine)]

    def _by_scatter(self, kind: str) -> list[list[str]]:
        """Return the regret that a budget of steps leads to, by how much steps scatter."""
        rows = of_rival(self._of(kind), OURS)
        lines = [["scatter of a step", "jobs", "100 steps", *map(str, BUDGETS[1:])]]
        for low, high in pairwise(SCATTER):
            here = [row for row in rows if low < row.step_noise <= high]
            if not here:
                continue
            name = f"up to {100 * high:g} %" if low == 0 else f"{100 * low:g} to {100 * high:g} %"
            cells = [_regret_cell([row for row in here if row.budget == budget]) for budget in BUDGETS]
            lines.append([name, str(len({row.problem for row in here})), *cells])
        return lines

    def _settled(self, kind: str) -> list[list[str]]:
        """In which share of runs of random search the optimum is missed, of problems for which thirty did not do."""
        lines = [["problem", "misses 2 %", "runs", "counts"]]
        shares = {}
        for name in dict.fromkeys(row.problem for row in self._control if row.kind in KINDS[kind]):
            missed = [row.regret > NEAR for row in self._control if row.problem == name]
            if len(missed) > 30:
                shares[name] = (float(np.mean(missed)), len(missed))
        for name, (share, runs) in sorted(shares.items(), key=lambda item: (-item[1][0], item[0])):
            lines.append([f"`{name}`", f"{100 * share:.0f} %", f"{runs:,}", "yes" if share >= 0.5 else "no"])
        return lines


def standard_error(rows: Sequence[Row]) -> float:
    """Return the standard error of the mean over fixed problems, from the scatter over each problem's seeds."""
    by_problem: dict[str, list[float]] = {}
    for row in rows:
        by_problem.setdefault(row.problem, []).append(row.regret)
    known = [np.var(of, ddof=1) / len(of) for of in by_problem.values() if len(of) > 1]
    return float(np.sqrt(sum(known))) / len(by_problem) if len(known) == len(by_problem) else float("nan")


def kept_tables() -> Tables:
    """Return the tables of the rows that are kept."""
    ring = Tables(read_rows(RING_RUNS), read_rows(RING_CONTROL))
    return Tables(read_rows(RUNS), read_rows(CONTROL), read_gains(), ring)


def rewritten(page: str, tables: Tables) -> str:
    """Return a page with its tables made anew."""

    def made(found: re.Match[str]) -> str:
        name = found["name"]
        return f"<!-- table: {name} -->\n{tables.table(name)}\n<!-- end of table -->"

    return MARKED.sub(made, page)


def _present(rows: Sequence[Row]) -> list[str]:
    there = {row.rival for row in rows}
    return [rival for rival in NAMES if rival in there]


def _mean(rows: Sequence[Row]) -> float:
    """Return the mean regret, each problem counting as much as another, however many seeds it has."""
    names = {row.problem for row in rows}
    return float(np.mean([np.mean([row.regret for row in rows if row.problem == name]) for name in sorted(names)]))


def _regret_cell(rows: Sequence[Row]) -> str:
    if not rows:
        return ""
    error, near = 100 * standard_error(rows), np.mean([row.regret <= NEAR for row in rows])
    margin = "" if np.isnan(error) else f" ± {error:.1f}"
    return f"{100 * _mean(rows):.1f}{margin} %, {100 * near:.0f} %"


def _safety_line(name: str, rows: Sequence[Row]) -> list[str]:
    worse = sum(row.loss > WORSE for row in rows)
    most = f"{100 * max(row.loss for row in rows):+.1f} %"
    inert = [row.is_changed for row in rows if row.problem.startswith(INERT_PREFIX)]
    changed = f"{sum(inert):,} of {len(inert):,}" if inert else ""
    pace = f"{1 + np.mean([row.slow_down for row in rows]):.2f}"
    problems = str(len({row.problem for row in rows}))
    return [name, problems, f"{len(rows):,}", f"{worse:,}", most, changed, pace]


def _spent_line(name: str, rows: Sequence[Row]) -> list[str]:
    problems, seeds = ({getattr(row, field) for row in rows} for field in ("problem", "seed"))
    spent = [[getattr(row, field) for row in rows] for field in ("steps", "seconds")]
    cells = [f"{np.median(of):,.0f}, {max(of):,.0f}" for of in spent]
    return [name, str(len(problems)), str(len(seeds)), _regret_cell(rows), *cells]


def _paired_cell(rows: Sequence[Row], ours: Mapping[tuple[str, int, int], float]) -> str:
    if not rows:
        return ""
    differences = np.array([row.regret - ours[row.problem, row.seed, row.budget] for row in rows])
    margin = STANDARD_ERRORS * differences.std(ddof=1) / np.sqrt(len(differences))
    word = " level" if abs(differences.mean()) <= margin else "" if differences.mean() > 0 else " **behind**"
    return f"{100 * differences.mean():+.1f} ± {100 * margin:.1f}{word}"


def _markdown(lines: list[list[str]]) -> str:
    head, *rest = ["".join(f"| {cell} " if cell else "| " for cell in line) + "|" for line in lines]
    return "\n".join((head, f"{'|---' * len(lines[0])}|", *rest))


def main() -> None:
    """Take in rows where asked to, and rewrite the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--take", type=Path, nargs="+", default=[], metavar="FILE", help="file of --keep whose runs replace all rows"
    )
    parser.add_argument(
        "--take-control", type=Path, metavar="FILE", help="file of --keep whose runs replace the control's rows"
    )
    parser.add_argument("--data", type=Path, metavar="DIR", help="public measurements, where the files have any")
    arguments = parser.parse_args()
    problems = dict(all_problems(Sources(data=arguments.data)))
    if arguments.take:
        write_rows(RUNS, [row for file in arguments.take for row in rows_of(file, problems)])
    if arguments.take_control is not None:
        write_rows(CONTROL, rows_of(arguments.take_control, problems))
    tables = kept_tables()
    for page in PAGES:
        page.write_text(rewritten(page.read_text(encoding="utf-8"), tables), encoding="utf-8")


if __name__ == "__main__":
    main()
