# SPDX-License-Identifier: Apache-2.0
"""Simulate jobs under `AUTOTUNE=auto`: by how much is a job of a given length longer or shorter than without a tuner?

Start it by `python -m benchmarks.tuner.unasked [--data DIR] [--seeds N] [--jobs N]`. The problems are those of
`benchmarks.regret`. A job trains for a minute; then its tuner searches, waits where a config might cost too much, and
watches its decision to the end, on the problem's own clock. Every step counts with the true time of the config in
force, so that the noise of steps misleads the tuner, but not the account.
"""

import argparse
import functools
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.tuner.regret.problem import Problem
from benchmarks.tuner.regret.problems import Sources, all_problems
from benchmarks.tuner.regret.time_account import TimeAccount
from ringtune.tuner import (
    Config,
    ContinuousTuning,
    Question,
    RunSettings,
    SilentObserver,
    Trial,
    Window,
    WindowSpec,
    make_designer,
    open_log,
    study_of,
)
from ringtune.tuner.policy.unasked import BEGINS_AFTER_S, UNASKED_LIMITS, UNASKED_POLICY

LENGTHS_S = (120.0, 300.0, 600.0, 3600.0)
KINDS = ("simulated", "drawn", "recorded", "public")
"""Kinds of problems that are jobs; a relaunched one is a launch for each window."""
SLOWER = 0.01
"""Fraction of its time by which a job is longer, above which it counts as slower."""


@dataclass(frozen=True)
class Spent:
    """Account of a job at a moment.

    Attributes:
        t_s: Time since the first step.
        lost_s: Part of it that the same steps would not have taken without a tuner; below zero where they took longer.
        lost_share: Part of each second that is lost from now on.
    """

    t_s: float
    lost_s: float
    lost_share: float


class LongJob(TimeAccount):
    """A problem's job, as a target that closes at the end of the job.

    Attributes:
        account: Entries in order of time.
    """

    def __init__(self, problem: Problem, seed: int, length_s: float) -> None:
        """Begin after the minute in which there is no tuner."""
        super().__init__(problem.target(seed), problem.baseline_ms)
        self._problem = problem
        self._end_s = length_s - BEGINS_AFTER_S
        self._step_ms = functools.cache(problem.step_ms)
        self._in_force = problem.baseline
        self.account = [Spent(BEGINS_AFTER_S, 0.0, 0.0)]

    def apply(self, config: Config) -> int:
        """Switch the target."""
        self._in_force = config
        return super().apply(config)

    def windows(self, spec: WindowSpec) -> Iterator[Window]:
        """Yield the target's windows until the end of the job."""
        settle_steps = spec.settle_steps
        for window in self._target.windows(spec):
            self._count(settle_steps + len(window.step_ms))
            settle_steps = 0
            if self._target.now_s > self._end_s:
                return
            yield window

    def rest(self, seconds: float) -> None:
        """Train under the config in force."""
        self._target.now_s += seconds
        self._count(seconds * 1e3 / self._step_ms(self._in_force))

    def _count(self, steps: float) -> None:
        step_ms, baseline_ms = self._step_ms(self._in_force), self._problem.baseline_ms
        lost_s = self.account[-1].lost_s + steps * (step_ms - baseline_ms) * 1e-3
        self.account.append(Spent(BEGINS_AFTER_S + self._target.now_s, lost_s, 1.0 - baseline_ms / step_ms))

    def change(self, length_s: float) -> float:
        """Return the fraction by which a job of that length took longer than its steps do without a tuner."""
        last = max((spent for spent in self.account if spent.t_s <= length_s), key=lambda spent: spent.t_s)
        lost_s = last.lost_s + last.lost_share * (length_s - last.t_s)
        return lost_s / (length_s - lost_s)


def run_job(problem: Problem, seed: int) -> Sequence[float]:
    """Return the changes of a job, by its length."""
    job = LongJob(problem, seed, LENGTHS_S[-1])
    model = problem.cost_model(seed)

    def ask(earlier: Sequence[Trial]) -> Question:
        space = job.space()
        priors = [*study_of(space, earlier, seed), *([] if model is None else [model])]
        settings = RunSettings(**UNASKED_LIMITS._asdict(), policy=UNASKED_POLICY, seed=seed)
        return Question(job, make_designer("gp", space, seed, priors), settings)

    ContinuousTuning(
        ask,
        open_log(None),
        SilentObserver(),
        rest=job.rest,
        on_decision=lambda _: None,
        clock=job.clock,
        trained_s=BEGINS_AFTER_S,
    ).run()
    return [job.change(length_s) for length_s in LENGTHS_S]


def run_named(name: str, seed: int, sources: Sources) -> tuple[str, Sequence[float]]:
    """Return a problem's kind and its changes."""
    problem = all_problems(sources)[name]
    return problem.kind, run_job(problem, seed)


def table_of(found: Mapping[str, Sequence[Sequence[float]]]) -> Table:
    """Return the table: a row per kind of problem and length of the job."""
    table = Table("jobs", "number", "minutes", "mean change", "longest", "shortest", "longer by 1 %")
    for kind, jobs in found.items():
        for number, length_s in enumerate(LENGTHS_S):
            changes = [job[number] for job in jobs]
            shown = [f"{100 * value:+.2f} %" for value in (fmean(changes), max(changes), min(changes))]
            slower = sum(change >= SLOWER for change in changes)
            table.add_row(kind, str(len(jobs)), f"{length_s / 60:g}", *shown, str(slower))
    return table


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description="Simulate jobs under AUTOTUNE=auto.")
    parser.add_argument("--data", type=Path, metavar="DIR", help="folder of public measurements")
    parser.add_argument("--seeds", type=int, default=1, help="runs of each problem; default: 1")
    parser.add_argument("--jobs", type=int, default=2, help="processes; default: 2")
    parser.add_argument("--only", default="", metavar="TEXT", help="problems whose name contains it")
    given = parser.parse_args()
    sources = Sources(data=given.data)
    names = [name for name, each in all_problems(sources).items() if each.kind in KINDS and given.only in name]
    runs = [(name, seed) for name in names for seed in range(given.seeds)]
    found: dict[str, list[Sequence[float]]] = {}
    with ProcessPoolExecutor(given.jobs) as pool:
        waiting = [pool.submit(run_named, name, seed, sources) for name, seed in runs]
        for each in track(waiting, "jobs", console=Console(stderr=True)):
            kind, changes = each.result()
            found.setdefault(kind, []).append(changes)
    Console(width=120).print(table_of(found))


if __name__ == "__main__":
    main()
