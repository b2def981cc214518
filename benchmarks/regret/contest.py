# SPDX-License-Identifier: Apache-2.0
"""Runs every rival on every problem from every seed, in several processes, and collects what they picked."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache

from ringtune.tuner.simulator import SCENARIOS

from .problem import Problem
from .rivals import RIVALS


@dataclass(frozen=True)
class Outcome:
    """What became of a run at a budget.

    Attributes:
        scenario: The problem's name.
        rival: Who picked.
        seed: Of the run.
        budget: Steps.
        regret: By which fraction the pick's steps are longer than the shortest possible.
        loss: By which fraction they are longer than the baseline's; below zero where they are shorter.
        slow_down: By which fraction steps were longer than the baseline's during the search, on average.
    """

    scenario: str
    rival: str
    seed: int
    budget: int
    regret: float
    loss: float
    slow_down: float


@dataclass(frozen=True)
class Contest:
    """Who meets where.

    Attributes:
        scenarios: Names.
        rivals: Names.
        budgets: Steps.
        seeds: How many runs of each.
    """

    scenarios: tuple[str, ...]
    rivals: tuple[str, ...]
    budgets: tuple[int, ...]
    seeds: int

    def outcomes(self, processes: int) -> Iterator[list[Outcome]]:
        """Yield the outcomes of run after run, as they are done."""
        runs = [(s, r, seed) for seed in range(self.seeds) for s in self.scenarios for r in self.rivals]
        with ProcessPoolExecutor(processes) as pool:
            futures = [pool.submit(run, scenario, rival, seed, self.budgets) for scenario, rival, seed in runs]
            for future in as_completed(futures):
                yield future.result()

    @property
    def runs(self) -> int:
        """How many there are."""
        return len(self.scenarios) * len(self.rivals) * self.seeds


def run(scenario: str, rival: str, seed: int, budgets: Sequence[int]) -> list[Outcome]:
    """Return what a rival picks at each budget."""
    problem = _problem(scenario)
    picks = RIVALS[rival](problem, budgets, seed)
    return [
        Outcome(scenario, rival, seed, budget, problem.regret(p.config), problem.loss(p.config), p.slow_down)
        for budget, p in picks.items()
    ]


@cache
def _problem(scenario: str) -> Problem:
    """Return the problem, once per process, with the step times that were simulated."""
    return Problem(SCENARIOS[scenario])
