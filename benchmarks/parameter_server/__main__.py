# SPDX-License-Identifier: Apache-2.0
"""Parameter servers beside allreduce: one model and its data, trained by each in turn.

Start it by `python -m benchmarks.parameter_server`, as root. The hosts are network namespaces of this machine. In each
round every trial runs once, in a random order, with the same parameters and images; rounds begin until the time is up.

- sync server, async server: torch RPC (TensorPipe), the parameters divided among the servers, one call per step each;
- ddp: DistributedDataParallel over Gloo;
- ringtune: DistributedOptimizer with its defaults;
- tensorflow async: ParameterServerStrategy, where `.venv-tensorflow` is there.

A worker computes a real gradient, and waits 20 ms before it in place of further computing: so 8 workers share two cores
without standing in each other's way.
"""

import argparse
import os
import random
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from ringtune.bench.network import check_hosts
from ringtune.errors import RingtuneError

from . import tensorflow_witness
from .arena import Arena, open_arena
from .plan import PLACES, SERVERS, WORKERS, round_of, witnessed
from .plots import write_plots
from .rows import RUNS, Row, read_rows, row_of, write_rows
from .tables import PAGE, Tables, rewritten
from .trial import TENSORFLOW, Trial

QUICK_ROUNDS, QUICK_WORKERS = 1, (2,)


@dataclass(frozen=True)
class Extent:
    """Extent of a run.

    Attributes:
        rounds: Largest number of rounds.
        minutes: Time after which no round begins that would not end within it.
        places: Some of `PLACES`.
        workers: Numbers of workers.
        witness_rounds: Rounds that TensorFlow takes part in.
    """

    rounds: int
    minutes: float
    places: Sequence[str]
    workers: Sequence[int]
    witness_rounds: int

    @property
    def is_whole(self) -> bool:
        """True if a run fills every table of the page."""
        whole = (set(PLACES), set(WORKERS))
        return (set(self.places), set(self.workers)) == whole and self.witness_rounds > 0

    def trials(self, first: int, number: int) -> list[Trial]:
        """Return the trials of a run's round in a random order, with seeds counted from the first round's."""
        seed = first + number
        trials = round_of(seed, self.places, self.workers)
        if number < self.witness_rounds and WITNESS_PLACE in self.places:
            trials += [trial for trial in witnessed(seed) if trial.workers <= max(self.workers)]
        return random.Random(seed).sample(trials, len(trials))  # noqa: S311  (an order of turns, no secret)


WITNESS_PLACE = witnessed(0)[0].place


def main() -> None:
    """Measure, print, and renew the page where asked to."""
    arguments = parse_arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # the hosts are taken away
    extent = extent_of(arguments)
    if arguments.renew and not extent.is_whole:
        raise SystemExit("--renew fills every table: leave --quick, --places and --workers out, and TensorFlow in")
    rows, is_complete = collect(extent, read_rows(RUNS) if arguments.extend else [])
    tables = Tables(rows)
    show(tables)
    if arguments.plots is not None:
        write_plots(rows, arguments.plots)
    if arguments.renew and is_complete:
        write_rows(RUNS, rows)
        PAGE.write_text(rewritten(PAGE.read_text(encoding="utf-8"), tables), encoding="utf-8")


def collect(extent: Extent, kept: list[Row]) -> tuple[list[Row], bool]:
    """Return the kept rows and those of the run, and whether it came to its end.

    Raises:
        SystemExit: If it did not, and there is no whole round.
    """
    rows = list(kept)
    try:
        for done in measure(extent, first=1 + max((row.number for row in rows), default=-1)):
            rows += done
    except (RingtuneError, KeyboardInterrupt) as error:
        reason = str(error) or "interrupted"
        if not rows:
            raise SystemExit(reason) from error
        print(f"{reason}\nthe tables have the rounds before; they are not kept", file=sys.stderr)
        return rows, False
    return rows, True


def show(tables: Tables) -> None:
    """Print the tables that the rows fill."""
    console = Console(width=None if sys.stdout.isatty() else 160)
    for name in tables.names():
        console.print(f"\n{name}", style="bold")
        console.print(tables.table(name), markup=False, soft_wrap=True)


def parse_arguments() -> argparse.Namespace:
    """Return the command line's options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=6, help="largest number of rounds (default 6)")
    parser.add_argument("--minutes", type=float, default=8.0, help="time limit for beginning rounds (default 8)")
    parser.add_argument("--places", nargs="+", choices=PLACES, default=PLACES, help="default: all")
    parser.add_argument("--workers", nargs="+", type=int, choices=WORKERS, default=WORKERS, help="default: 2 4 8")
    parser.add_argument(
        "--tensorflow", type=int, default=1, metavar="ROUNDS", help="rounds with TensorFlow's servers (default 1)"
    )
    parser.add_argument("--quick", action="store_true", help="one round with 2 workers, without TensorFlow: a minute")
    parser.add_argument("--plots", type=Path, metavar="DIR", help="folder for the loss curves and rates as HTML pages")
    parser.add_argument("--renew", action="store_true", help=f"keep the rows, and renew the tables of {PAGE.name}")
    parser.add_argument(
        "--extend", action="store_true", help="add rounds to the rows that are kept; of the same machine"
    )
    arguments = parser.parse_args()
    if arguments.rounds < 1:
        parser.error(f"--rounds {arguments.rounds}: at least 1")
    return arguments


def extent_of(arguments: argparse.Namespace) -> Extent:
    """Return how much the options ask for."""
    if arguments.quick:
        return Extent(QUICK_ROUNDS, arguments.minutes, arguments.places, QUICK_WORKERS, 0)
    witness_rounds = arguments.tensorflow
    if reason := tensorflow_witness.missing():
        print(reason, file=sys.stderr)
        witness_rounds = 0
    return Extent(arguments.rounds, arguments.minutes, arguments.places, arguments.workers, witness_rounds)


def measure(extent: Extent, first: int = 0) -> Iterator[list[Row]]:
    """Yield the rows of each round that the time allows, of one at least.

    Args:
        extent: Extent of the run.
        first: Number of the first round.

    Raises:
        RingtuneError: If hosts cannot be made, or a trial fails.
    """
    most = max(extent.workers)
    check_hosts(most + SERVERS, most + SERVERS)
    load = os.getloadavg()[0]
    with ExitStack() as stack:
        arenas = {place: stack.enter_context(open_arena(place, most, SERVERS)) for place in extent.places}
        progress = stack.enter_context(Progress(console=Console(stderr=True), transient=True))
        for number in _rounds(extent):
            trials = extent.trials(first, number)
            bar = progress.add_task(f"round {number + 1}", total=len(trials))
            rows = []
            for trial in trials:
                rows.append(measure_one(arenas[trial.place], trial, load))
                progress.advance(bar)
            yield rows


def measure_one(arena: Arena, trial: Trial, load: float) -> Row:
    """Return the row of a trial."""
    is_witness = trial.way == TENSORFLOW
    return row_of(trial, tensorflow_witness.measure(arena, trial) if is_witness else arena.measure(trial), load)


def _rounds(extent: Extent) -> Iterator[int]:
    """Yield numbers of rounds while the next one is likely to end in time."""
    begun_s = time.monotonic()
    for number in range(extent.rounds):
        elapsed_s = time.monotonic() - begun_s
        if number and elapsed_s * (number + 1) / number > 60 * extent.minutes:
            break
        yield number


if __name__ == "__main__":
    main()
