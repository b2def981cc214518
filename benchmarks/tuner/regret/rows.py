# SPDX-License-Identifier: Apache-2.0
"""Raw rows behind the printed tables: one per run and budget, compressed, beside the tables.

They are made from the files of `--keep` and name each problem's kind and default, so that tables need no data of the
problems. Runs that began at the flat ring, the default between hosts before the hierarchical allreduce, have files of
their own.
"""

import csv
import io
import json
import lzma
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from .harness import Outcome
from .problem import Problem

FOLDER = Path(__file__).parent / "results"
RUNS, CONTROL = FOLDER / "runs.csv.xz", FOLDER / "control.csv.xz"
RING_RUNS, RING_CONTROL = FOLDER / "flat_ring_runs.csv.xz", FOLDER / "flat_ring_control.csv.xz"
DIGITS = 5
"""After the point, of fractions; seconds have fewer that say anything."""


@dataclass(frozen=True)
class Row(Outcome):
    """An outcome, and the facts of its problem.

    Attributes:
        kind: The problem's kind.
        step_noise: The problem's noise of steps.
        default: Config with which the job began, in JSON: the reference of gains, losses and regret.
    """

    kind: str = ""
    step_noise: float = 0.0
    default: str = ""


FRACTIONS = ("regret", "loss", "slow_down", "later_cost", "seconds", "step_noise")
COLUMNS = [field.name for field in fields(Row)]


def rows_of(kept: Path, problems: dict[str, Problem]) -> list[Row]:
    """Return the outcomes of a file of `--keep` as rows, rounded.

    Args:
        kept: The file.
        problems: Problems by name.
    """
    lines = kept.read_text(encoding="utf-8").splitlines()[1:]
    outcomes = [outcome for line in lines for outcome in json.loads(line)["outcomes"]]
    return [_rounded(Outcome(**outcome), problems[outcome["problem"]]) for outcome in outcomes]


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Write rows, ordered, so that the same rows are the same bytes."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    ordered = sorted(rows, key=lambda row: (row.problem, row.rival, row.seed, row.budget))
    writer.writerows(asdict(row) for row in ordered)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(lzma.compress(text.getvalue().encode(), preset=9))


def read_rows(path: Path) -> list[Row]:
    """Return the rows of a file."""
    text = lzma.decompress(path.read_bytes()).decode()
    return [_row(values) for values in csv.DictReader(io.StringIO(text))]


def of_rival(rows: Sequence[Row], rival: str) -> list[Row]:
    """Return one rival's rows."""
    return [row for row in rows if row.rival == rival]


def _rounded(outcome: Outcome, problem: Problem) -> Row:
    values: dict[str, Any] = {k: round(v, DIGITS) if isinstance(v, float) else v for k, v in asdict(outcome).items()}
    default = json.dumps(problem.baseline.to_json())
    return Row(**values, kind=problem.kind, step_noise=round(problem.step_noise, DIGITS), default=default)


def _row(values: dict[str, str]) -> Row:
    read: dict[str, Any] = {name: values[name] for name in ("problem", "rival", "kind", "default")}
    read |= {name: int(values[name]) for name in ("seed", "budget", "steps")}
    read |= {name: float(values[name]) for name in FRACTIONS}
    return Row(**read, is_changed=values["is_changed"] == "True")
