# SPDX-License-Identifier: Apache-2.0
"""The tables: regret, each rival paired with ringtune, safety, and the cost of tuning."""

from collections.abc import Sequence

import numpy as np
from rich.console import Console
from rich.table import Table

from .outcomes import OURS, Outcomes, upper_bound
from .problem import NEAR
from .problems import KINDS
from .random_control import CONTROL, CONTROL_BUDGET

WORSE, MUCH_WORSE = 0.01, 0.05
QUIET_NOISE = 0.015
MOST_COST = 0.03
"""Limit of the search's cost, as a share of the time after the first minute."""
STANDARD_ERRORS = 2.0
"""Standard errors by which a contestant must be ahead."""
HEADINGS = {
    "simulated": "(a) simulated jobs",
    "drawn": "(b) simulated jobs, drawn by a rule",
    "recorded": "(c) recorded surfaces of this engine",
    "public": "(d) public measurements of other engines",
    "relaunched": "(d) the same, every window a launch of its own",
}
POOLED = ("simulated", "drawn", "recorded", "public")
"""Kinds that are also looked at together, each problem as much as another; `relaunched` has those of `public` again."""


def render(outcomes: Outcomes, console: Console) -> None:
    """Print all tables."""
    for kind in KINDS:
        if outcomes.of_kind(kind):
            _print_kind(outcomes, kind, console)
    _print_pooled(outcomes, console)
    if outcomes.flat:
        console.print(safety_table(outcomes, outcomes.flat, "Picks where nothing is to be gained"))
    if outcomes.inert:
        console.print(safety_table(outcomes, outcomes.inert, "Picks where the knobs do nothing (A/A)"))
    console.print(safety_table(outcomes, outcomes.problems, "Picks on all problems"))
    console.print(cost_table(outcomes))


def _print_kind(outcomes: Outcomes, kind: str, console: Console) -> None:
    """Print the tables of a kind's problems that have a gain."""
    searched = outcomes.searched(kind)
    console.print(f"{HEADINGS[kind]}: {len(searched)} of {len(outcomes.of_kind(kind))} count for search")
    if settled := [name for name in outcomes.steep(kind) if name in outcomes.control.misses]:
        console.print(control_table(outcomes, settled))
    if searched:
        console.print(regret_table(outcomes, searched))
        console.print(problem_table(outcomes, searched, "Mean regret by problem"))
        _print_paired(outcomes, searched, console)
    if others := [name for name in outcomes.steep(kind) if name not in searched]:
        console.print(problem_table(outcomes, others, "Mean regret where random search finds what is to be gained"))


def render_regret(outcomes: Outcomes, console: Console) -> None:
    """Print the first table alone, of a comparison that goes on."""
    for kind in KINDS:
        if searched := outcomes.searched(kind):
            console.print(HEADINGS[kind])
            console.print(regret_table(outcomes, searched))


def _print_pooled(outcomes: Outcomes, console: Console) -> None:
    """Print the tables of all kinds together, where there are several."""
    by_kind = {kind: searched for kind in POOLED if (searched := outcomes.searched(kind))}
    if len(by_kind) > 1:
        pooled = [name for searched in by_kind.values() for name in searched]
        console.print(f"{', '.join(by_kind)}, together: {len(pooled)} count for search")
        console.print(regret_table(outcomes, pooled))
        _print_paired(outcomes, pooled, console)


def _print_paired(outcomes: Outcomes, problems: Sequence[str], console: Console) -> None:
    if OURS in outcomes.rivals:
        console.print(paired_table(outcomes, problems))


def control_table(outcomes: Outcomes, problems: Sequence[str]) -> Table:
    """Return how often random search misses the optimum of problems in which there is something to gain."""
    title = f"Where {CONTROL} search misses the optimum by {100 * NEAR:g} % at {CONTROL_BUDGET} steps"
    table = Table(title=title, title_justify="left")
    table.add_column("problem")
    for heading in ("misses", "runs", "counts"):
        table.add_column(heading, justify="right")
    control = outcomes.control
    for name in sorted(problems, key=control.share, reverse=True):
        runs, counts = len(control.misses[name]), "yes" if control.counts(name) else "no"
        table.add_row(name, f"{100 * control.share(name):.0f} %", str(runs), counts)
    return table


def regret_table(outcomes: Outcomes, problems: Sequence[str]) -> Table:
    """Return mean regret and the share of runs near the optimum, by rival and budget."""
    quiet = outcomes.quiet(problems, QUIET_NOISE)
    table = _table("Mean regret, and share of runs within 2 % of the optimum", outcomes)
    columns = ("there at each, noise up to 1.5 %", "steps while tuning ÷ baseline's")
    for heading in columns:
        table.add_column(heading, justify="right")
    for rival in outcomes.rivals:
        cells = []
        for budget in outcomes.budgets:
            regret = outcomes.values("regret", rival, budget, problems)
            cells.append(f"{100 * regret.mean():.1f} %, {100 * np.mean(regret <= NEAR):.0f} %")
        last = outcomes.budgets[-1]
        near = [outcomes.values("regret", rival, budget, quiet) <= NEAR for budget in outcomes.budgets]
        slow_down = outcomes.values("slow_down", rival, last, problems)
        there = " / ".join(f"{100 * found.mean():.0f}" for found in near) + " %" if quiet else "-"
        table.add_row(rival, *cells, there, f"{1 + slow_down.mean():.3f}")
    return table


def problem_table(outcomes: Outcomes, problems: Sequence[str], title: str) -> Table:
    """Return mean regret by problem and rival, one number per budget."""
    table = Table(title=f"{title}, at each budget, in %", title_justify="left")
    table.add_column("problem")
    for rival in outcomes.rivals:
        table.add_column(rival, justify="right")
    for problem in problems:
        cells = (
            " ".join(f"{100 * outcomes.values('regret', rival, b, [problem]).mean():.1f}" for b in outcomes.budgets)
            for rival in outcomes.rivals
        )
        table.add_row(problem, *cells)
    return table


def paired_table(outcomes: Outcomes, problems: Sequence[str]) -> Table:
    """Return by how much each rival's regret is larger than ours, and whether that is more than chance."""
    table = _table(f"Regret less {OURS}'s, in points, ± {STANDARD_ERRORS:g} standard errors; by run", outcomes)
    for rival in outcomes.rivals:
        if rival == OURS:
            continue
        cells = []
        for budget in outcomes.budgets:
            mean, error = outcomes.ahead(rival, budget, problems)
            margin = STANDARD_ERRORS * error
            word = "ahead" if mean > margin else "behind" if mean < -margin else "level"
            cells.append(f"{100 * mean:+.1f} ± {100 * margin:.1f} {word}")
        table.add_row(rival, *cells)
    return table


def safety_table(outcomes: Outcomes, problems: Sequence[str], title: str) -> Table:
    """Return how often picks are worse than the baseline, over all budgets, with an upper bound."""
    table = Table(title=f"{title}: worse than the baseline by how much, all budgets", title_justify="left")
    headings = ("rival", "runs", "changed", "over 1 % worse", "over 5 % worse", "over 5 %, at most (95 %)", "worst")
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "rival" else "right")
    for rival in outcomes.rivals:
        loss, changed = (
            np.concatenate([outcomes.values(field, rival, b, problems) for b in outcomes.budgets])
            for field in ("loss", "is_changed")
        )
        much = int(np.sum(loss > MUCH_WORSE))
        table.add_row(
            rival,
            str(len(loss)),
            f"{100 * changed.mean():.1f} %",
            f"{100 * np.mean(loss > WORSE):.2f} %",
            str(much),
            f"{100 * upper_bound(much, len(loss)):.2f} %",
            f"{100 * loss.max():+.1f} %",
        )
    return table


def cost_table(outcomes: Outcomes) -> Table:
    """Return the cost of tuning over the time after the first minute, by rival: on the problem where it is largest.

    A mean over problems would let one problem's gain pay for another's loss.
    """
    table = _table("Cost after the first minute on the problem where it is highest, mean of its runs", outcomes)
    table.add_column(f"runs over {100 * MOST_COST:g} %", justify="right")
    for rival in outcomes.rivals:
        costs = [outcomes.values("later_cost", rival, budget, outcomes.problems) for budget in outcomes.budgets]
        cells = [_highest_cost(outcomes, rival, budget) for budget in outcomes.budgets]
        over = sum(int(np.sum(of_budget > MOST_COST)) for of_budget in costs)
        table.add_row(rival, *cells, f"{over:,} of {sum(map(len, costs)):,}")
    return table


def _highest_cost(outcomes: Outcomes, rival: str, budget: int) -> str:
    means = {name: outcomes.values("later_cost", rival, budget, [name]).mean() for name in outcomes.problems}
    worst = max(means, key=means.__getitem__)
    return f"{100 * means[worst]:.1f} % {worst}"


def _table(title: str, outcomes: Outcomes) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("rival")
    for budget in outcomes.budgets:
        table.add_column(f"{budget} steps", justify="right")
    return table
