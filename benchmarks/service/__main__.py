# SPDX-License-Identifier: Apache-2.0
"""Throughput, latency and processor time of the service: recommendations, results and batches.

Start it by `python -m benchmarks.service`. It fills an empty database, starts `ringtune serve` on it, and puts loads on
that from one client process. Client, service and database share the machine's cores.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress

from ringtune.service.store import Database

from .load.databases import KINDS, database_url
from .load.filling import TRIALS_PER_STUDY, Known, fill, known_studies
from .load.report import table_of
from .load.scenarios import SCENARIOS
from .load.server import serving

FILE_WIDTH = 200
"""Columns of a table that goes into a file."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", choices=KINDS, default="postgresql")
    parser.add_argument("--trials", type=int, default=1_000_000, help="stored before anything is measured")
    parser.add_argument("--only", nargs="+", choices=SCENARIOS, default=list(SCENARIOS))
    parser.add_argument("--seconds", type=float, default=10.0, help="duration of each load")
    parser.add_argument("--folder", type=Path, help="keep the database there, and use what is there already")
    arguments = parser.parse_args()
    known = known_studies(arguments.trials)
    with ExitStack() as stack:
        folder = arguments.folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ringtune-bench-")))
        folder.mkdir(parents=True, exist_ok=True)
        progress = stack.enter_context(
            Progress(*Progress.get_default_columns(), MofNCompleteColumn(), console=Console(stderr=True))
        )
        url = stack.enter_context(database_url(arguments.database, folder))
        _fill(url, known, progress)
        rows = []
        for name in progress.track(arguments.only, description="loads"):
            with serving(url, folder, SCENARIOS[name].variables) as server:
                for row in SCENARIOS[name].rows(server, known, arguments.seconds):
                    rows.append(row)
                    progress.console.print(f"{row.name}: {row.observed.good_per_s:,.0f}/s")
    trials = len(known) * TRIALS_PER_STUDY
    title = f"{arguments.database}, {trials:,} trials in {len(known):,} studies, {os.cpu_count()} cores"
    Console(width=None if sys.stdout.isatty() else FILE_WIDTH).print(table_of(rows, title))


def _fill(url: str, known: Sequence[Known], progress: Progress) -> None:
    task = progress.add_task("trials stored", total=len(known) * TRIALS_PER_STUDY)
    database = Database.open(url)
    try:
        fill(database, known, lambda trials: progress.advance(task, trials))
    finally:
        database.close()


if __name__ == "__main__":
    main()
