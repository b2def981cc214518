# SPDX-License-Identifier: Apache-2.0
"""Control by random search: a problem counts where random search seldom comes near the optimum.

Runs of their own settle it, independent of the rivals and of their number of runs: with thirty runs a share near one
half has a standard error of 9 points, and another thirty runs would select other problems.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from .harness import Outcome, RegretBenchmark
from .problem import NEAR
from .problems import Sources, all_problems

CONTROL = "random"
CONTROL_BUDGET = 200
ROUNDS = (30, 200, 1000)
"""Runs after which a problem is settled, unless the share that they give is close to one half."""
CLOSE = 3.0
"""Standard errors."""

Show = Callable[[RegretBenchmark], Iterable[Outcome]]
"""Runs a comparison, shows how far it is, and returns its outcomes."""


@dataclass(frozen=True)
class RandomControl:
    """Misses of random search by problem.

    Attributes:
        misses: Whether each of its runs missed the optimum, by problem.
    """

    misses: dict[str, list[bool]] = field(default_factory=dict)

    @classmethod
    def of(cls, outcomes: Iterable[Outcome]) -> "RandomControl":
        """Return the control of some outcomes of random search."""
        misses: dict[str, list[bool]] = {}
        for outcome in outcomes:
            misses.setdefault(outcome.problem, []).append(outcome.regret > NEAR)
        return cls(misses)

    def share(self, problem: str) -> float:
        """Return the share of its runs that missed."""
        return float(np.mean(self.misses[problem]))

    def counts(self, problem: str) -> bool:
        """Return whether it missed in half of its runs; of a problem on which it was not run, True."""
        return problem not in self.misses or self.share(problem) >= 0.5

    def is_close(self, problem: str) -> bool:
        """Return whether as many other runs might say the opposite."""
        standard_error = 0.5 / np.sqrt(len(self.misses[problem]))
        return bool(abs(self.share(problem) - 0.5) <= CLOSE * standard_error)


def settle(sources: Sources, problems: Sequence[str], most_seeds: int, show: Show) -> RandomControl:
    """Return which problems count, after as many runs of random search on each as it takes to tell.

    Args:
        sources: Sources of the problems.
        problems: Names; those without a gain need no control.
        most_seeds: Maximum runs on a problem whose share stays close to one half; with 0 all problems count.
        show: Runs a comparison.
    """
    known = all_problems(sources)
    unsettled = tuple(name for name in problems if not known[name].is_flat)
    outcomes: list[Outcome] = []
    for first, last in pairwise((0, *ROUNDS)):
        seeds = range(first, min(last, most_seeds))
        if unsettled and seeds:
            outcomes += show(RegretBenchmark(sources, unsettled, (CONTROL,), (CONTROL_BUDGET,), seeds))
            control = RandomControl.of(outcomes)
            unsettled = tuple(name for name in unsettled if control.is_close(name))
    return RandomControl.of(outcomes)
