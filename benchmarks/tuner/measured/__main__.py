# SPDX-License-Identifier: Apache-2.0
"""Choices of ringtune and of other tuners on spaces that others measured in full.

Start it by `python -m benchmarks.measured --data DIR`. A launch draws one of a config's recorded runs, or fails. The
score is the true time of the chosen config, the median of its runs, over the best one's. For contestants with
ringtune's policy a budget is `--max-samples`, the configs to try; for samplers by themselves it is launches.
"""

import argparse
from pathlib import Path

from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn

from .contestants import CONTESTANTS
from .harness import Comparison
from .outcomes import Outcome, read_outcomes, write_outcomes
from .spaces import read_spaces
from .tables import tables


def parse_arguments() -> argparse.Namespace:
    """Return the command line's flags."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder with measured/*.csv.gz")
    parser.add_argument("--seeds", type=int, default=10, help="runs of each contestant on each space")
    parser.add_argument("--budgets", type=int, nargs="+", default=[25, 50, 100], help="configs to try, or launches")
    parser.add_argument("--contestants", nargs="+", metavar="NAME", help="default: all whose libraries are installed")
    parser.add_argument("--spaces", nargs="+", metavar="NAME", help="default: all of the folder")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument(
        "--keep", type=Path, metavar="FILE", help="rows as CSV, or .csv.xz; runs that are in it are not run again"
    )
    parser.add_argument("--anew", action="store_true", help="run the contestants again whose rows are in FILE")
    return parser.parse_args()


def main() -> None:
    """Run the comparison and print its tables."""
    arguments = parse_arguments()
    notes = Console(stderr=True)
    comparison = _comparison(arguments, notes)
    wanted = set(comparison.runs)
    kept = [] if arguments.keep is None else read_outcomes(arguments.keep)
    known = [outcome for outcome in kept if not (arguments.anew and outcome.run in wanted)]
    outcomes = _all_outcomes(comparison, known, arguments, notes)
    print("chosen / best, mean ± standard error; launches, failed ones and CPU seconds a suggestion at the last budget")
    for name, table in tables([outcome for outcome in outcomes if outcome.run in wanted]).items():
        print(f"\n{name}\n\n{table}")


def _all_outcomes(
    comparison: Comparison, known: list[Outcome], arguments: argparse.Namespace, notes: Console
) -> list[Outcome]:
    """Return the known outcomes and, once they are run, the missing ones; the file of --keep grows run by run."""
    outcomes = {(*outcome.run, outcome.budget): outcome for outcome in known}
    todo = comparison.missing(known)
    columns = (*Progress.get_default_columns(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=notes) as progress:
        for found in progress.track(comparison.outcomes(arguments.jobs, todo), len(todo), description="runs"):
            outcomes |= {(*outcome.run, outcome.budget): outcome for outcome in found}
            if arguments.keep is not None:
                write_outcomes(arguments.keep, outcomes.values())
    return list(outcomes.values())


def _comparison(arguments: argparse.Namespace, notes: Console) -> Comparison:
    try:
        there = tuple(read_spaces(arguments.data))
    except (FileNotFoundError, ValueError) as error:
        raise SystemExit(str(error)) from error
    spaces = _known("space", arguments.spaces, there)
    wanted = _known("contestant", arguments.contestants, tuple(CONTESTANTS))
    missing = {name: CONTESTANTS[name].missing for name in wanted}
    for name, modules in missing.items():
        if modules:
            notes.print(f"{name} is not run: {', '.join(modules)} is not installed", highlight=False, markup=False)
    contestants = tuple(name for name in wanted if not missing[name])
    return Comparison(arguments.data, spaces, contestants, tuple(arguments.budgets), range(arguments.seeds))


def _known(kind: str, asked: list[str] | None, there: tuple[str, ...]) -> tuple[str, ...]:
    """Return the asked names, or all; the names must be there."""
    if unknown := [name for name in asked or () if name not in there]:
        raise SystemExit(f"no such {kind}: {', '.join(unknown)}; there are: {'; '.join(there)}")
    return tuple(asked or there)


if __name__ == "__main__":
    main()
