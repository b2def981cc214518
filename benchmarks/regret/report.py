# SPDX-License-Identifier: Apache-2.0
"""The tables: regret, safety, and each rival paired with ringtune."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from scipy.stats import beta

from ringtune.tuner.simulator import SCENARIOS

from .contest import Outcome

Array = NDArray[np.float64]

OURS = "ringtune"
CONTROL = "random"
NEAR = 0.02
"""Within this of the optimum is as good as it."""
CONTROL_BUDGET = 200
WORSE, MUCH_WORSE = 0.01, 0.05
CONFIDENCE = 0.95


class Outcomes:
    """All outcomes, to be asked."""

    def __init__(self, outcomes: Iterable[Outcome]) -> None:
        """Take them in any order; of a contest that goes on, those of runs that every rival has done."""
        self._all = _of_all_rivals(sorted(outcomes, key=lambda o: (o.scenario, o.seed, o.budget, o.rival)))
        self.rivals = tuple(dict.fromkeys(o.rival for o in self._all))
        self.budgets = tuple(sorted({o.budget for o in self._all}))
        self.scenarios = tuple(dict.fromkeys(o.scenario for o in self._all))

    def values(self, field: str, rival: str, budget: int, scenarios: Sequence[str]) -> Array:
        """Return one value per run, in the order of scenarios and seeds, shape (runs,)."""
        picked = (o for o in self._all if (o.rival, o.budget) == (rival, budget) and o.scenario in scenarios)
        return np.array([getattr(o, field) for o in picked], dtype=float)

    @property
    def searched(self) -> tuple[str, ...]:
        """Scenarios in which there is something to find, and random search does not find it half of the time."""
        if CONTROL not in self.rivals or CONTROL_BUDGET not in self.budgets:
            return tuple(name for name in self.scenarios if not SCENARIOS[name].is_flat)
        return tuple(
            name
            for name in self.scenarios
            if not SCENARIOS[name].is_flat
            and np.mean(self.values("regret", CONTROL, CONTROL_BUDGET, [name]) > NEAR) >= 0.5
        )


def _of_all_rivals(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Return the outcomes on those scenarios and seeds on which every rival has one."""
    rivals = {outcome.rival for outcome in outcomes}
    done: dict[tuple[str, int], set[str]] = {}
    for outcome in outcomes:
        done.setdefault((outcome.scenario, outcome.seed), set()).add(outcome.rival)
    return [outcome for outcome in outcomes if done[outcome.scenario, outcome.seed] == rivals]


def render(outcomes: Outcomes, console: Console) -> None:
    """Print all tables."""
    searched = outcomes.searched
    console.print(f"{len(searched)} of {len(outcomes.scenarios)} scenarios count for search: {', '.join(searched)}")
    if searched:
        console.print(_regret_table(outcomes, searched))
        console.print(_scenario_table(outcomes, searched))
        if OURS in outcomes.rivals:
            console.print(_paired_table(outcomes, searched))
    console.print(_safety_table(outcomes))


def render_regret(outcomes: Outcomes, console: Console) -> None:
    """Print the first table alone, of a contest that goes on."""
    if searched := outcomes.searched:
        console.print(_regret_table(outcomes, searched))


def _regret_table(outcomes: Outcomes, scenarios: Sequence[str]) -> Table:
    table = Table(title="Mean regret, and share of runs within 2 % of the optimum", title_justify="left")
    table.add_column("rival")
    for budget in outcomes.budgets:
        table.add_column(f"{budget} steps", justify="right")
    table.add_column("steps while tuning ÷ baseline's", justify="right")
    for rival in outcomes.rivals:
        cells = []
        for budget in outcomes.budgets:
            regret = outcomes.values("regret", rival, budget, scenarios)
            cells.append(f"{100 * regret.mean():.1f} %, {100 * np.mean(regret <= NEAR):.0f} %")
        slow_down = outcomes.values("slow_down", rival, outcomes.budgets[-1], scenarios)
        table.add_row(rival, *cells, f"{1 + slow_down.mean():.3f}")
    return table


def _scenario_table(outcomes: Outcomes, scenarios: Sequence[str]) -> Table:
    table = Table(title="Mean regret by scenario, at each budget", title_justify="left")
    table.add_column("scenario")
    for rival in outcomes.rivals:
        table.add_column(rival, justify="right")
    for scenario in scenarios:
        cells = (
            " ".join(f"{100 * outcomes.values('regret', rival, b, [scenario]).mean():.1f}" for b in outcomes.budgets)
            for rival in outcomes.rivals
        )
        table.add_row(scenario, *cells)
    return table


def _paired_table(outcomes: Outcomes, scenarios: Sequence[str]) -> Table:
    table = Table(title=f"Regret less {OURS}'s, in points, ± its standard error; by run", title_justify="left")
    table.add_column("rival")
    for budget in outcomes.budgets:
        table.add_column(f"{budget} steps", justify="right")
    for rival in outcomes.rivals:
        if rival == OURS:
            continue
        cells = []
        for budget in outcomes.budgets:
            ahead = outcomes.values("regret", rival, budget, scenarios) - outcomes.values(
                "regret", OURS, budget, scenarios
            )
            error = ahead.std(ddof=1) / np.sqrt(len(ahead)) if len(ahead) > 1 else np.nan
            cells.append(f"{100 * ahead.mean():+.1f} ± {100 * error:.1f}")
        table.add_row(rival, *cells)
    return table


def _safety_table(outcomes: Outcomes) -> Table:
    table = Table(title="Picks that are worse than the baseline, all scenarios and budgets", title_justify="left")
    for heading in ("rival", "runs", "over 1 % worse", "over 5 % worse", "over 5 %, at most (95 %)", "worst"):
        table.add_column(heading, justify="left" if heading == "rival" else "right")
    for rival in outcomes.rivals:
        loss = np.concatenate([outcomes.values("loss", rival, b, outcomes.scenarios) for b in outcomes.budgets])
        much = int(np.sum(loss > MUCH_WORSE))
        table.add_row(
            rival,
            str(len(loss)),
            f"{100 * np.mean(loss > WORSE):.2f} %",
            str(much),
            f"{100 * upper_bound(much, len(loss)):.2f} %",
            f"{100 * loss.max():+.1f} %",
        )
    return table


def upper_bound(count: int, runs: int) -> float:
    """Return the one-sided upper bound of a share of which `count` of `runs` were seen (Clopper & Pearson 1934)."""
    return 1.0 if count == runs else float(beta.ppf(CONFIDENCE, count + 1, runs - count))
