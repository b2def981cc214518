# SPDX-License-Identifier: Apache-2.0
"""Makes the tables of this folder's README from the rows in results/: `python -m benchmarks.tuner.measured.tables`."""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from .contestants import CONTESTANTS, RULE_OFF
from .outcomes import Outcome, read_outcomes

FOLDER = Path(__file__).parent
PAGE, ROWS = FOLDER / "README.md", FOLDER / "results" / "runs.csv.xz"
MARKED = re.compile(r"<!-- table: (?P<name>\w+) -->\n.*?<!-- end of table -->", re.DOTALL)
ALL, ABLATION = "all", "ablation"
"""Names of the tables over all spaces, each of which has the same weight."""
OURS = "ringtune"


def tables(outcomes: Sequence[Outcome]) -> dict[str, str]:
    """Return tables in Markdown: one for each space, by name, one over all spaces, and that of the ablation.

    The last two have the contestants with rows for each space, and the ablation the seeds that all of its searches had.
    """
    names = sorted({outcome.space for outcome in outcomes})
    rivals = [outcome for outcome in outcomes if not outcome.contestant.startswith(RULE_OFF)]
    by_name = {name: _table([outcome for outcome in rivals if outcome.space == name]) for name in names}
    searches = [
        outcome for outcome in outcomes if outcome.contestant == OURS or outcome.contestant.startswith(RULE_OFF)
    ]
    return {**by_name, ALL: _table(_on_all(rivals, names)), ABLATION: _table(_paired(_on_all(searches, names)))}


def _on_all(outcomes: Sequence[Outcome], spaces: Sequence[str]) -> list[Outcome]:
    """Return the outcomes of contestants that have some on each space."""
    run = {(outcome.space, outcome.contestant) for outcome in outcomes}
    return [outcome for outcome in outcomes if all((name, outcome.contestant) in run for name in spaces)]


def _paired(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Return the outcomes from seeds that every contestant had."""
    seeds = [{o.seed for o in outcomes if o.contestant == name} for name in {o.contestant for o in outcomes}]
    return [outcome for outcome in outcomes if outcome.seed in set.intersection(*seeds)]


def mean_and_error(outcomes: Sequence[Outcome]) -> tuple[float, float]:
    """Return the mean ratio over spaces, and its standard error over seeds; the spaces are fixed."""
    by_space: dict[str, list[float]] = {}
    for outcome in outcomes:
        by_space.setdefault(outcome.space, []).append(outcome.ratio)
    mean = float(np.mean([np.mean(ratios) for ratios in by_space.values()]))
    if min(len(ratios) for ratios in by_space.values()) < 2:
        return mean, float("nan")
    variances = [np.var(ratios, ddof=1) / len(ratios) for ratios in by_space.values()]
    return mean, float(np.sqrt(sum(variances))) / len(by_space)


def rewritten(page: str, outcomes: Sequence[Outcome]) -> str:
    """Return a page with its tables made anew; a table without rows stays empty."""
    made = tables(outcomes) if outcomes else {}

    def table(found: re.Match[str]) -> str:
        return f"<!-- table: {found['name']} -->\n{made.get(found['name'], '')}\n<!-- end of table -->"

    return MARKED.sub(table, page)


def _table(outcomes: Sequence[Outcome]) -> str:
    budgets = sorted({outcome.budget for outcome in outcomes})
    head = ["", "seeds", *map(str, budgets), "launches", "failed", "CPU s"]
    lines = [f"| {' | '.join(head)} |", f"|---|{'--:|' * (len(head) - 1)}"]
    present = {outcome.contestant for outcome in outcomes}
    names = [*(name for name in CONTESTANTS if name in present), *sorted(present - CONTESTANTS.keys())]
    lines += [_line(name, [outcome for outcome in outcomes if outcome.contestant == name], budgets) for name in names]
    return "\n".join(lines)


def _line(name: str, outcomes: Sequence[Outcome], budgets: Sequence[int]) -> str:
    """Return a contestant's line; launches, failures and CPU time are those of the largest budget."""
    cells = [_ratio_cell([outcome for outcome in outcomes if outcome.budget == budget]) for budget in budgets]
    largest = [outcome for outcome in outcomes if outcome.budget == budgets[-1]]
    spent = [_mean_cell(largest, *column) for column in (("launches", 0), ("failed", 0), ("cpu_s", 3))]
    return f"| {' | '.join([name, str(len({outcome.seed for outcome in outcomes})), *cells, *spent])} |"


def _mean_cell(outcomes: Sequence[Outcome], field: str, digits: int) -> str:
    return f"{np.mean([getattr(outcome, field) for outcome in outcomes]):.{digits}f}" if outcomes else ""


def _ratio_cell(outcomes: Sequence[Outcome]) -> str:
    if not outcomes:
        return ""
    mean, error = mean_and_error(outcomes)
    return f"{mean:.2f}" if np.isnan(error) else f"{mean:.2f} ± {error:.2f}"


def main() -> None:
    """Rewrite the tables."""
    PAGE.write_text(rewritten(PAGE.read_text(encoding="utf-8"), read_outcomes(ROWS)), encoding="utf-8")


if __name__ == "__main__":
    main()
