# SPDX-License-Identifier: Apache-2.0
"""How far from the best config do tuners end, at equal budgets of steps, and how often do they leave a job worse off?

Start it by `python -m benchmarks.regret`. One sample is ten steps, settling after a switch counts as well. Problems are
simulated jobs; a scenario counts for search only where random search misses the optimum by 2 % in half of its runs, and
all count for safety.
"""

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress

from ringtune.tuner.simulator import SCENARIOS

from .contest import Contest, Outcome
from .report import Outcomes, render, render_regret
from .rivals import RIVALS

FILE_WIDTH = 240
"""Columns of tables that go into a file."""


def main() -> None:
    """Run the contest and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=30, help="runs of each rival on each scenario")
    parser.add_argument("--budgets", type=int, nargs="+", default=[100, 200, 300, 600], help="steps")
    parser.add_argument("--rivals", nargs="+", choices=RIVALS, default=list(RIVALS))
    parser.add_argument("--scenarios", nargs="+", choices=SCENARIOS, default=list(SCENARIOS))
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--json", type=Path, help="write every outcome there")
    arguments = parser.parse_args()
    contest = Contest(tuple(arguments.scenarios), tuple(arguments.rivals), tuple(arguments.budgets), arguments.seeds)
    outcomes: list[Outcome] = []
    tenth = max(contest.runs // 10, 1)
    columns = (*Progress.get_default_columns(), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("runs", total=contest.runs)
        for number, done in enumerate(contest.outcomes(arguments.processes), start=1):
            outcomes += done
            progress.advance(task)
            if number % tenth == 0 and number < contest.runs:
                progress.console.print(f"{number} of {contest.runs} runs, those that every rival has done:")
                render_regret(Outcomes(outcomes), progress.console)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps([asdict(outcome) for outcome in outcomes]))
    render(Outcomes(outcomes), Console(width=None if sys.stdout.isatty() else FILE_WIDTH))


if __name__ == "__main__":
    main()
