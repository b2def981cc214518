# SPDX-License-Identifier: Apache-2.0
"""How far from the best config do tuners end, at equal budgets of steps, and how often do they leave a job worse off?

Start it by `python -m benchmarks.regret`. One sample is ten steps, settling after a switch counts as well. Problems are
simulated jobs; a scenario counts for search only where random search misses the optimum by 2 % in half of its runs, and
all count for safety.
"""

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from ringtune.tuner.simulator import SCENARIOS

from .contest import Contest, Outcome
from .report import Outcomes, render
from .rivals import RIVALS


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
    with Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task("runs", total=contest.runs)
        for done in contest.outcomes(arguments.processes):
            outcomes += done
            progress.advance(task)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps([asdict(outcome) for outcome in outcomes]))
    render(Outcomes(outcomes), Console())


if __name__ == "__main__":
    main()
