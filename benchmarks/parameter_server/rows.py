# SPDX-License-Identifier: Apache-2.0
"""Raw rows behind the page's tables: one per trial, compressed, in `results/`."""

import csv
import io
import itertools
import lzma
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from .role_program import Measured
from .trial import ONE_HOST, SERVER, WORKER, Trial

FOLDER = Path(__file__).parent / "results"
RUNS = FOLDER / "runs.csv.xz"
MB = 1e6


@dataclass(frozen=True)
class Row:
    """A trial and what came of it.

    Attributes:
        number: Number of the round.
        way: Name of the way in which gradients met.
        servers: Number of servers.
        workers: Number of workers.
        place: `one host`, or the links' rate.
        slowdown: Factor on the computing time of the last worker.
        learning_rate: Factor on each gradient.
        compute_ms: Time of the wait in a step, milliseconds.
        seconds: Time for which was trained.
        batch_size: Images of a worker's step.
        examples_per_s: Images of all workers per second.
        first_steps_per_s: Steps of worker 0, which is never slow, per second.
        busiest: Process on the busiest host; empty on one host.
        busiest_mb: Bytes of the busier direction of its link for as many gradients as there are workers, in 10^6.
        staleness: Mean number of gradients of others that a gradient had missed.
        load: Load average of the machine before the run: about 0 on a quiet one.
        curve: Seconds, gradients applied, mean loss over all data; points in their order.
    """

    number: int
    way: str
    servers: int
    workers: int
    place: str
    slowdown: float
    learning_rate: float
    compute_ms: float
    seconds: float
    batch_size: int
    examples_per_s: float
    first_steps_per_s: float
    busiest: str
    busiest_mb: float
    staleness: float
    load: float
    curve: tuple[tuple[float, int, float], ...]

    @property
    def step_ms(self) -> float:
        """Mean time of a worker's step, milliseconds."""
        return 1e3 * self.workers * self.batch_size / self.examples_per_s

    @property
    def final_loss(self) -> float:
        """Loss after the trial's time."""
        return self.loss_after(self.seconds, 0)

    @property
    def gradients(self) -> int:
        """Number of gradients at the curve's end."""
        return self.curve[-1][1]

    def loss_after(self, amount: float, axis: int) -> float:
        """Return the loss after some seconds (axis 0) or gradients (axis 1), between points on a straight line."""
        points = [(float(point[axis]), point[2]) for point in self.curve]
        for (left, higher), (right, lower) in itertools.pairwise(points):
            if left <= amount <= right:
                return higher + (lower - higher) * (amount - left) / (right - left) if right > left else lower
        return points[-1][1]


COLUMNS = [field.name for field in fields(Row)]
NUMBERS = {field.name: field.type for field in fields(Row) if field.type in (int, float)}


def row_of(trial: Trial, measured: Mapping[str, Measured], load: float) -> Row:
    """Return a trial's row.

    Args:
        trial: The trial; its seed is the number of the round.
        measured: Measurements of its processes, by name.
        load: Load average of the machine before the run.
    """
    workers = [measured[f"{WORKER}{number}"] for number in range(trial.workers)]
    rates = [len(worker.ends_s) / worker.ends_s[-1] for worker in workers]
    gradients = sum(len(worker.ends_s) for worker in workers)
    busiest, carried = ("", 0) if trial.place == ONE_HOST else _busiest(measured)
    values = {name: value for name, value in asdict(trial).items() if name in COLUMNS}
    return Row(
        number=trial.seed,
        **values,
        examples_per_s=round(trial.batch_size * sum(rates), 3),
        first_steps_per_s=round(rates[0], 4),
        busiest=busiest,
        busiest_mb=round(carried / gradients * trial.workers / MB, 4),
        staleness=round(sum(worker.staleness for worker in workers) / len(workers), 3),
        load=round(load, 2),
        curve=tuple((round(s, 4), g, round(loss, 5)) for s, g, loss in workers[0].curve),
    )


def _busiest(measured: Mapping[str, Measured]) -> tuple[str, int]:
    """Return the process whose host carried most in one direction, a server before a worker, and its bytes."""
    traffic = {name: max(each.sent, each.received) for name, each in measured.items()}
    name = max(sorted(traffic, key=lambda each: not each.startswith(SERVER)), key=lambda each: traffic[each])
    return name, traffic[name]


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Write rows, ordered, so that the same rows are the same bytes."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in sorted(rows, key=_order):
        values = {**asdict(row), "curve": ";".join(f"{s} {g} {loss}" for s, g, loss in row.curve)}
        writer.writerow([values[name] for name in COLUMNS])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(lzma.compress(text.getvalue().encode(), preset=9))


def _order(row: Row) -> tuple[str | float, ...]:
    return (row.place, row.way, row.servers, row.workers, row.slowdown, row.learning_rate, row.number)


def read_rows(path: Path) -> list[Row]:
    """Return the rows of a file."""
    text = lzma.decompress(path.read_bytes()).decode()
    return [_row(values) for values in csv.DictReader(io.StringIO(text))]


def _row(values: dict[str, str]) -> Row:
    read: dict[str, Any] = {name: NUMBERS[name](text) if name in NUMBERS else text for name, text in values.items()}
    points: Sequence[list[str]] = [point.split() for point in values["curve"].split(";")]
    read["curve"] = tuple((float(s), int(g), float(loss)) for s, g, loss in points)
    return Row(**read)
