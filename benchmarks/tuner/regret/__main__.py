# SPDX-License-Identifier: Apache-2.0
"""Regret and safety of ringtune and its rivals at equal budgets of steps.

Start it by `python -m benchmarks.regret`. A sample is ten steps; steps that settle after a switch count as well.
Problems are simulated jobs, recorded surfaces of this engine (benchmarks/tuner/surfaces), and public measurements of
other engines (--data), within one launch and with a launch for each window. A control by random search settles first
which problems count for search: those in which half of its runs miss the optimum by 2 %. Problems without a gain, and
those whose knobs have no effect, have tables of their own, for safety. Tables over all kinds come last.
"""

import argparse
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn

from ringtune.errors import ConfigError

from .ablation import ablate
from .contestants import RIVALS, missing_of
from .harness import KeptOutcomes, Outcome, RegretBenchmark
from .outcomes import Outcomes
from .plots import write_plots
from .problems import KINDS, SURFACES, Sources, all_problems
from .random_control import ROUNDS, RandomControl, settle
from .report import render, render_regret

FILE_WIDTH = 260
"""Columns of tables that go into a file."""


def parse_arguments() -> argparse.Namespace:
    """Return the command line's flags."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10, help="runs of each rival, or variant, on each problem")
    parser.add_argument(
        "--control-seeds",
        type=int,
        default=ROUNDS[-1],
        help=f"most runs of random search that settle whether a problem counts; {ROUNDS[0]} are enough where that is"
        " clear (default: %(default)s; 0: all problems count in which something is to be gained)",
    )
    parser.add_argument("--budgets", type=int, nargs="+", default=[100, 200, 300, 600], help="steps")
    parser.add_argument("--rivals", nargs="+", choices=RIVALS, help="default: all whose libraries are installed")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--problems", nargs="+", metavar="NAME", help="default: all of the kinds")
    parser.add_argument("--surfaces", type=Path, default=SURFACES, metavar="DIR", help="recorded surfaces")
    parser.add_argument("--data", type=Path, metavar="DIR", help="public measurements: surfaces/, collectives/")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="every outcome; what is in it is not run again")
    parser.add_argument(
        "--ablate", action="store_true", help="instead: the policy with one rule off at a time, in the default mode"
    )
    parser.add_argument("--plots", type=Path, metavar="DIR", help="write pages with figures there")
    return parser.parse_args()


def main() -> None:
    """Run the comparison and print the tables."""
    arguments = parse_arguments()
    notes = Console(stderr=True)
    sources = Sources(arguments.surfaces, arguments.data)
    if arguments.ablate:
        _print_ablation(sources, range(arguments.seeds), arguments.jobs)
        return
    chosen = arguments.rivals or RIVALS
    rivals = tuple(rival for rival in chosen if not missing_of(rival))
    for note in (*sources.missing(), *_left_out(chosen)):
        notes.print(note, highlight=False, markup=False)
    names, budgets = _problem_names(arguments, sources), tuple(arguments.budgets)
    try:
        kept = None if arguments.keep is None else KeptOutcomes(arguments.keep, sources)
    except ConfigError as error:
        raise SystemExit(str(error)) from error
    shown = _Shown(arguments.jobs, kept, notes)
    control = settle(sources, names, arguments.control_seeds, shown.of_control)
    comparison = RegretBenchmark(sources, names, rivals, budgets, range(arguments.seeds))
    outcomes = Outcomes(shown.of_rivals(comparison, control), all_problems(sources), control)
    render(outcomes, Console(width=None if sys.stdout.isatty() else FILE_WIDTH))
    if arguments.plots is not None:
        write_plots(outcomes, arguments.plots)
        notes.print(f"figures: {arguments.plots}", highlight=False, markup=False)


def _left_out(rivals: Iterable[str]) -> Iterator[str]:
    """Yield a line for each rival whose libraries are not installed."""
    for rival in rivals:
        if missing := missing_of(rival):
            yield f"not run: {rival}, which needs {', '.join(missing)}"


def _print_ablation(sources: Sources, seeds: range, jobs: int) -> None:
    try:
        table = ablate(sources, seeds, jobs, Console(stderr=True))
    except ConfigError as error:
        raise SystemExit(str(error)) from error
    Console(width=None if sys.stdout.isatty() else FILE_WIDTH).print(table)


def _problem_names(arguments: argparse.Namespace, sources: Sources) -> tuple[str, ...]:
    problems = all_problems(sources)
    names = arguments.problems or [name for name, problem in problems.items() if problem.kind in arguments.kinds]
    if unknown := [name for name in names if name not in problems]:
        raise SystemExit(f"no such problems: {', '.join(unknown)}; there are {', '.join(problems)}")
    return tuple(names)


@dataclass(frozen=True)
class _Shown:
    """Runs comparisons and shows how far they are.

    Attributes:
        jobs: Number of processes.
        kept: Outcomes of earlier comparisons; None keeps none.
        console: Console that shows them.
    """

    jobs: int
    kept: KeptOutcomes | None
    console: Console

    def of_control(self, comparison: RegretBenchmark) -> list[Outcome]:
        """Return all outcomes of a comparison that settles which problems count."""
        return [outcome for found in self._runs(comparison, "which problems count") for outcome in found]

    def of_rivals(self, comparison: RegretBenchmark, control: RandomControl) -> list[Outcome]:
        """Return all outcomes; show the first table now and then."""
        outcomes: list[Outcome] = []
        total = len(comparison.runs)
        for number, found in enumerate(self._runs(comparison, "runs"), start=1):
            outcomes += found
            if number % max(total // 10, 1) == 0 and number < total:
                self.console.print(f"{number} of {total} runs, those that every rival has done:")
                render_regret(Outcomes(outcomes, all_problems(comparison.sources), control), self.console)
        return outcomes

    def _runs(self, comparison: RegretBenchmark, words: str) -> Iterator[list[Outcome]]:
        columns = (*Progress.get_default_columns(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=self.console) as progress:
            yield from progress.track(
                comparison.outcomes(self.jobs, self.kept), len(comparison.runs), description=words
            )


if __name__ == "__main__":
    main()
