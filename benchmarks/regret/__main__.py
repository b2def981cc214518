# SPDX-License-Identifier: Apache-2.0
"""How far from the best config do tuners end, at equal budgets of steps, and how often do they leave a job worse off?

Start it by `python -m benchmarks.regret`. One sample is ten steps, settling after a switch counts as well. Problems are
simulated jobs, recorded surfaces of this engine (benchmarks/surfaces), and public measurements of others (--data):
these within one launch, and again with a launch for each window. A problem counts for search only where random search
misses the optimum by 2 % in half of its runs; those in which nothing is to be gained, and those whose knobs do nothing,
have tables of their own, for safety. Where several kinds are run, what counts of them is told together, too.
"""

import argparse
import sys
from pathlib import Path

from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn

from ringtune.errors import ConfigError

from .contest import Contest, KeptOutcomes, Outcome
from .outcomes import Outcomes
from .plots import write_plots
from .problems import KINDS, SURFACES, Sources, all_problems
from .report import render, render_regret
from .rivals import OPTUNA_RIVALS, RIVALS, rivals_here

FILE_WIDTH = 260
"""Columns of tables that go into a file."""


def parse_arguments() -> argparse.Namespace:
    """Return the command line's flags."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=30, help="runs of each rival on each problem")
    parser.add_argument("--budgets", type=int, nargs="+", default=[100, 200, 300, 600], help="steps")
    parser.add_argument("--rivals", nargs="+", choices=RIVALS, help="default: all whose libraries are installed")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--problems", nargs="+", metavar="NAME", help="default: all of the kinds")
    parser.add_argument("--surfaces", type=Path, default=SURFACES, metavar="DIR", help="recorded surfaces")
    parser.add_argument("--data", type=Path, metavar="DIR", help="public measurements: surfaces/, collectives/")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="every outcome; what is in it is not run again")
    parser.add_argument("--plots", type=Path, metavar="DIR", help="write pages with figures there")
    return parser.parse_args()


def main() -> None:
    """Run the contest and print the tables."""
    arguments = parse_arguments()
    notes = Console(stderr=True)
    sources = Sources(arguments.surfaces, arguments.data)
    rivals = tuple(arguments.rivals or rivals_here())
    missing = sources.missing()
    if arguments.rivals is None and not set(OPTUNA_RIVALS) <= set(rivals):
        missing.append("no Optuna: install ringtune[benchmark] to compare with it")
    for note in missing:
        notes.print(note, highlight=False, markup=False)
    names, budgets = _problem_names(arguments, sources), tuple(arguments.budgets)
    contest = Contest(sources, names, rivals, budgets, arguments.seeds)
    try:
        kept = None if arguments.keep is None else KeptOutcomes(arguments.keep, sources)
    except ConfigError as error:
        raise SystemExit(str(error)) from error
    outcomes = Outcomes(_run(contest, arguments.jobs, kept, notes), all_problems(sources))
    render(outcomes, Console(width=None if sys.stdout.isatty() else FILE_WIDTH))
    if arguments.plots is not None:
        write_plots(outcomes, arguments.plots)
        notes.print(f"figures: {arguments.plots}", highlight=False, markup=False)


def _problem_names(arguments: argparse.Namespace, sources: Sources) -> tuple[str, ...]:
    problems = all_problems(sources)
    names = arguments.problems or [name for name, problem in problems.items() if problem.kind in arguments.kinds]
    if unknown := [name for name in names if name not in problems]:
        raise SystemExit(f"no such problems: {', '.join(unknown)}; there are {', '.join(problems)}")
    return tuple(names)


def _run(contest: Contest, jobs: int, kept: KeptOutcomes | None, console: Console) -> list[Outcome]:
    """Return all outcomes; show how far the contest is, and its first table now and then."""
    outcomes: list[Outcome] = []
    total = len(contest.runs)
    columns = (*Progress.get_default_columns(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("runs", total=total)
        for number, found in enumerate(contest.outcomes(jobs, kept), start=1):
            outcomes += found
            progress.advance(task)
            if number % max(total // 10, 1) == 0 and number < total:
                progress.console.print(f"{number} of {total} runs, those that every rival has done:")
                render_regret(Outcomes(outcomes, all_problems(contest.sources)), progress.console)
    return outcomes


if __name__ == "__main__":
    main()
