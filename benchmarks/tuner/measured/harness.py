# SPDX-License-Identifier: Apache-2.0
"""Runs contestants on measured spaces in several processes."""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from threadpoolctl import threadpool_limits

from .contestants import CONTESTANTS
from .outcomes import Outcome
from .spaces import SUFFIX, MeasuredSpace, read_space

Run = tuple[str, str, int]
"""Space, contestant, seed."""


@dataclass(frozen=True)
class Comparison:
    """Spaces, contestants, budgets and seeds of a comparison.

    Attributes:
        folder: Folder with `measured/`.
        spaces: Names.
        contestants: Names.
        budgets: Configs or launches.
        seeds: Seeds of the runs of each.
    """

    folder: Path
    spaces: tuple[str, ...]
    contestants: tuple[str, ...]
    budgets: tuple[int, ...]
    seeds: range

    @property
    def runs(self) -> list[Run]:
        """All runs, seed by seed: those that are done at any moment compare all contestants."""
        return [(s, c, seed) for seed in self.seeds for s in self.spaces for c in self.contestants]

    def missing(self, known: Sequence[Outcome]) -> list[Run]:
        """Return the runs of which an outcome is not known."""
        done = {(*outcome.run, outcome.budget) for outcome in known}
        return [run for run in self.runs if not all((*run, budget) in done for budget in self.budgets)]

    def outcomes(self, jobs: int, runs: Sequence[Run]) -> Iterator[list[Outcome]]:
        """Yield the outcomes of each run, as they come, from so many processes."""
        # A fork would hand down the threads of numerical libraries without what they hold.
        with ProcessPoolExecutor(jobs, get_context("spawn"), initializer=_compute_alone) as pool:
            futures = [pool.submit(outcomes_of, self.folder, run, self.budgets) for run in runs]
            for future in as_completed(futures):
                yield future.result()


def outcomes_of(folder: Path, run: Run, budgets: Sequence[int]) -> list[Outcome]:
    """Return the outcomes of a run, one for each budget."""
    name, contestant, seed = run
    space = read_space(folder / "measured" / f"{name}{SUFFIX}")
    return judged(space, contestant, seed, budgets)


def judged(space: MeasuredSpace, contestant: str, seed: int, budgets: Sequence[int]) -> list[Outcome]:
    """Return the outcomes of a contestant's choices."""
    choices = CONTESTANTS[contestant].choose(space, budgets, seed)
    return [
        Outcome(
            space=space.name,
            contestant=contestant,
            seed=seed,
            budget=budget,
            ratio=space.ratio(choice.config),
            launches=choice.launches,
            failed=choice.failed,
            cpu_s=choice.cpu_s,
        )
        for budget, choice in choices.items()
    ]


def _compute_alone() -> None:
    """Keep a process to one thread: libraries would start one for each core in every process."""
    os.environ["OMP_NUM_THREADS"] = "1"
    threadpool_limits(1)
