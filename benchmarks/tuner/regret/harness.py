# SPDX-License-Identifier: Apache-2.0
"""Harness: runs every contestant on every problem from every seed, in several processes, and keeps the outcomes."""

import json
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path

from threadpoolctl import threadpool_limits

from benchmarks.tuner.measured import bare
from ringtune import tuner
from ringtune.errors import ConfigError
from ringtune.system.durable_lines import append_to, whole_lines

from .contestants import RIVALS
from .problems import Sources, all_problems
from .source_digest import sources_digest

TOLD_AFTERWARDS = frozenset(
    (
        "random_control.py",
        "outcomes.py",
        "report.py",
        "plots.py",
        "rows.py",
        "tables.py",
        "gains.py",
        "__main__.py",
        "optima.py",
    )
)
NOT_COMPARED = TOLD_AFTERWARDS | frozenset(("review", "watch.py", "drift.py", "continuous.py"))
"""Files and folders of the tuner and of this comparison on which no outcome depends."""


@dataclass(frozen=True)
class Outcome:
    """Outcome of a run at a budget.

    Attributes:
        problem: The problem's name.
        rival: Name of the contestant.
        seed: Seed of the run.
        budget: Steps.
        regret: Fraction by which the pick's steps are longer than the shortest possible.
        loss: Fraction by which they are longer than the baseline's; below zero where they are shorter.
        slow_down: Fraction by which steps were longer than the baseline's during the search, on average.
        later_cost: Share of the time after the first minute that the search cost.
        is_changed: Whether the pick is another config than the baseline.
        steps: Steps that the run took; 0 where they are its budget.
        seconds: Time that the run took; 0 where its budget is in steps.
    """

    problem: str
    rival: str
    seed: int
    budget: int
    regret: float
    loss: float
    slow_down: float
    later_cost: float = 0.0
    is_changed: bool = True
    steps: int = 0
    seconds: float = 0.0


Run = tuple[str, str, int]
"""Problem, rival, seed."""


@dataclass(frozen=True)
class RegretBenchmark:
    """Contestants, problems, budgets and seeds of a comparison.

    Attributes:
        sources: Sources of the problems.
        problems: Names.
        rivals: Names.
        budgets: Steps.
        seeds: Seeds of the runs of each.
    """

    sources: Sources
    problems: tuple[str, ...]
    rivals: tuple[str, ...]
    budgets: tuple[int, ...]
    seeds: range

    @property
    def runs(self) -> list[Run]:
        """All runs, seed by seed: those that are done at any moment compare all rivals."""
        return [(p, r, seed) for seed in self.seeds for p in self.problems for r in self.rivals]

    def outcomes(self, jobs: int, kept: "KeptOutcomes | None" = None) -> Iterator[list[Outcome]]:
        """Yield the outcomes of run after run: those that are kept already, then others as they come, which are kept.

        Args:
            jobs: Number of processes.
            kept: Outcomes of earlier comparisons; None keeps none.
        """
        missing = []
        for wanted in self.runs:
            found = [] if kept is None else [o for o in kept.of(wanted) if o.budget in self.budgets]
            if len(found) == len(self.budgets):
                yield found
            else:
                missing.append(wanted)
        with ProcessPoolExecutor(jobs, initializer=_compute_alone) as pool:
            futures = [pool.submit(run, self.sources, *wanted, self.budgets) for wanted in missing]
            for future in as_completed(futures):
                if kept is not None:
                    kept.add(future.result())
                yield future.result()


def _compute_alone() -> None:
    """Keep a process to one thread: libraries that a rival brings would start one for each core in every process."""
    os.environ["OMP_NUM_THREADS"] = "1"
    threadpool_limits(1)


def run(sources: Sources, problem: str, rival: str, seed: int, budgets: Sequence[int]) -> list[Outcome]:
    """Return a rival's outcomes, one for each budget."""
    played = all_problems(sources)[problem]
    picks = RIVALS[rival](played, budgets, seed)
    return [
        Outcome(
            problem,
            rival,
            seed,
            budget,
            played.regret(pick.config),
            played.loss(pick.config),
            pick.slow_down,
            pick.later_cost,
            pick.config != played.baseline,
            pick.steps,
            pick.seconds,
        )
        for budget, pick in picks.items()
    ]


class KeptOutcomes:
    """A file of outcomes (JSON Lines), appended to run by run, so that a comparison that was ended goes on."""

    def __init__(self, path: Path, sources: Sources) -> None:
        """Read the file's outcomes.

        Args:
            path: The file.
            sources: Sources of the problems; an outcome on other data is not used.

        Raises:
            ConfigError: If it was written by another version of the tuner or of this comparison.
        """
        self._path = path
        self._problems = all_problems(sources)
        self._by_run: dict[tuple[Run, str], dict[int, Outcome]] = {}
        version = {"sources": _sources_digest()}
        lines = whole_lines(path.read_bytes()) if path.exists() else b""
        if not lines:
            path.write_text(json.dumps(version) + "\n", encoding="utf-8")
            return
        first, *others = map(json.loads, lines.splitlines())
        if first != version:
            raise ConfigError(
                f"{path} holds outcomes of another version of the tuner; remove it, or give another --keep"
            )
        os.truncate(path, len(lines))
        for record in others:
            self._note([Outcome(**outcome) for outcome in record["outcomes"]], record["data"])

    def of(self, wanted: Run) -> list[Outcome]:
        """Return a run's outcomes, at each budget that it was done at."""
        return list(self._by_run.get((wanted, self._problems[wanted[0]].data_digest), {}).values())

    def add(self, outcomes: Sequence[Outcome]) -> None:
        """Keep a run's outcomes, at least one."""
        data = self._problems[outcomes[0].problem].data_digest
        self._note(outcomes, data)
        record = {"data": data, "outcomes": [asdict(outcome) for outcome in outcomes]}
        append_to(self._path, json.dumps(record))

    def _note(self, outcomes: Sequence[Outcome], data: str) -> None:
        for outcome in outcomes:
            done: Run = (outcome.problem, outcome.rival, outcome.seed)
            self._by_run.setdefault((done, data), {})[outcome.budget] = outcome


def _sources_digest() -> str:
    """Return the digest of the tuner and this comparison, without the parts that show results or come after them."""
    ours = (Path(file).parent for file in (tuner.__file__, __file__))
    return sources_digest((*ours, Path(bare.__file__).parent / "samplers"), NOT_COMPARED)
