# SPDX-License-Identifier: Apache-2.0
"""All outcomes of a comparison, to be asked by the tables and the plots."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

from .harness import Outcome
from .problem import Problem
from .random_control import RandomControl

Array = NDArray[np.float64]

OURS = "ringtune"
CONFIDENCE = 0.95


class Outcomes:
    """Outcomes of those runs that every rival has done, the problems they are of, and which of these count."""

    def __init__(self, outcomes: Iterable[Outcome], problems: Mapping[str, Problem], control: RandomControl) -> None:
        """Take them in any order; of a comparison that goes on, those that can be paired."""
        order = sorted(outcomes, key=lambda o: (o.problem, o.seed, o.budget, o.rival))
        self.all = of_all_rivals(order)
        self._problems = problems
        self.control = control
        self.rivals = tuple(dict.fromkeys(o.rival for o in self.all))
        self.budgets = tuple(sorted({o.budget for o in self.all}))
        self.problems = tuple(dict.fromkeys(o.problem for o in self.all))

    def values(self, field: str, rival: str, budget: int, problems: Sequence[str]) -> Array:
        """Return one value per run, in the order of problems and seeds, shape (runs,)."""
        picked = (o for o in self.all if (o.rival, o.budget) == (rival, budget) and o.problem in problems)
        return np.array([getattr(o, field) for o in picked], dtype=float)

    def of_kind(self, kind: str) -> tuple[str, ...]:
        """Return the problems of a kind."""
        return tuple(name for name in self.problems if self._problems[name].kind == kind)

    def steep(self, kind: str) -> tuple[str, ...]:
        """Return those of a kind in which there is something to gain."""
        return tuple(name for name in self.of_kind(kind) if not self._problems[name].is_flat)

    def searched(self, kind: str) -> tuple[str, ...]:
        """Return those in which there is something to find, and random search does not find it half of the time."""
        return tuple(name for name in self.steep(kind) if self.control.counts(name))

    @property
    def flat(self) -> tuple[str, ...]:
        """Problems in which keeping the baseline is right, without those whose knobs have no effect."""
        return tuple(n for n in self.problems if self._problems[n].is_flat and not self._problems[n].is_inert)

    @property
    def inert(self) -> tuple[str, ...]:
        """Problems whose knobs have no effect."""
        return tuple(name for name in self.problems if self._problems[name].is_inert)

    def quiet(self, problems: Sequence[str], most_noise: float) -> tuple[str, ...]:
        """Return the problems whose steps scatter by at most a given deviation."""
        return tuple(name for name in problems if self._problems[name].step_noise <= most_noise)

    def ahead(self, rival: str, budget: int, problems: Sequence[str]) -> tuple[float, float]:
        """Return by how much a rival's regret is larger than ours, paired by run, and the standard error of it."""
        theirs, ours = (self.values("regret", name, budget, problems) for name in (rival, OURS))
        difference = theirs - ours
        error = difference.std(ddof=1) / np.sqrt(len(difference)) if len(difference) > 1 else np.nan
        return float(difference.mean()), float(error)


def of_all_rivals(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Return the outcomes on those problems and seeds on which every rival has one."""
    rivals = {outcome.rival for outcome in outcomes}
    done: dict[tuple[str, int], set[str]] = {}
    for outcome in outcomes:
        done.setdefault((outcome.problem, outcome.seed), set()).add(outcome.rival)
    return [outcome for outcome in outcomes if done[outcome.problem, outcome.seed] == rivals]


def upper_bound(count: int, runs: int) -> float:
    """Return the one-sided upper bound of a share of which `count` of `runs` were seen (Clopper & Pearson 1934).

    Of none it is the rule of three: 3 of as many runs.
    """
    return 1.0 if count == runs else float(beta.ppf(CONFIDENCE, count + 1, runs - count))
