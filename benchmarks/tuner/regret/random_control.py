# SPDX-License-Identifier: Apache-2.0
"""Which problems count for search: those in which random search seldom comes near the optimum.

That is settled by runs of its own, so that it hangs neither on which rivals meet nor on how many runs they have: of
thirty runs that are near in one half, the share has a standard error of 9 points, and another thirty would let other
problems count.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from .harness import Comparison, Outcome
from .problem import NEAR
from .problems import Sources, all_problems

CONTROL = "random"
CONTROL_BUDGET = 200
ROUNDS = (30, 200, 1000)
"""Runs after which a problem is settled, unless the share that they give is close to one half."""
CLOSE = 3.0
"""Standard errors."""

Show = Callable[[Comparison], Iterable[Outcome]]
"""Runs a comparison, shows how far it is, and returns its outcomes."""


@dataclass(frozen=True)
class RandomControl:
    """What random search made of problems.

    Attributes:
        misses: Whether each of its runs missed the optimum, by problem.
    """

    misses: dict[str, list[bool]] = field(default_factory=dict)

    @classmethod
    def of(cls, outcomes: Iterable[Outcome]) -> "RandomControl":
        """Return what outcomes of random search say."""
        misses: dict[str, list[bool]] = {}
        for outcome in outcomes:
            misses.setdefault(outcome.problem, []).append(outcome.regret > NEAR)
        return cls(misses)

    def share(self, problem: str) -> float:
        """Return in which share of its runs it missed."""
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
        sources: Of problems.
        problems: Names; in those in which nothing is to be gained nothing is to be settled.
        most_seeds: Runs on a problem whose share stays close to one half; of none all problems count.
        show: Runs a comparison.
    """
    known = all_problems(sources)
    asked = tuple(name for name in problems if not known[name].is_flat)
    outcomes: list[Outcome] = []
    for first, last in pairwise((0, *ROUNDS)):
        seeds = range(first, min(last, most_seeds))
        if asked and seeds:
            outcomes += show(Comparison(sources, asked, (CONTROL,), (CONTROL_BUDGET,), seeds))
            control = RandomControl.of(outcomes)
            asked = tuple(name for name in asked if control.is_close(name))
    return RandomControl.of(outcomes)
