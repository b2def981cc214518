# SPDX-License-Identifier: Apache-2.0
"""Outcomes of contestants on measured spaces, and the file that keeps them: a row for each run and budget."""

import csv
import io
import lzma
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from ringtune.system.whole_file import replace_whole
from ringtune.tuner import Config

DIGITS = 5
"""After the point."""


@dataclass(frozen=True)
class Choice:
    """Choice of a contestant at the end of a budget.

    Attributes:
        config: The chosen config.
        launches: Launches that it took.
        failed: Launches that failed among them.
        cpu_s: CPU time for each suggestion, seconds.
    """

    config: Config
    launches: int
    failed: int
    cpu_s: float


@dataclass(frozen=True)
class Outcome:
    """Outcome of a run at a budget.

    Attributes:
        space: Name of the space.
        contestant: Name of the contestant.
        seed: Seed of the run.
        budget: Configs or launches that it might take.
        ratio: True time of the chosen config, in units of the best one's.
        launches: Launches that it took.
        failed: Launches that failed among them.
        cpu_s: CPU time for each suggestion, seconds.
    """

    space: str
    contestant: str
    seed: int
    budget: int
    ratio: float
    launches: int
    failed: int
    cpu_s: float

    @property
    def run(self) -> tuple[str, str, int]:
        """Space, contestant, seed."""
        return self.space, self.contestant, self.seed


COLUMNS = [field.name for field in fields(Outcome)]


def write_outcomes(path: Path, outcomes: Iterable[Outcome]) -> None:
    """Write a file of outcomes, ordered: equal ones are equal bytes. CSV, compressed if the name ends with .xz."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    ordered = sorted(outcomes, key=lambda outcome: (*outcome.run, outcome.budget))
    writer.writerows(
        {**asdict(outcome), "ratio": round(outcome.ratio, DIGITS), "cpu_s": round(outcome.cpu_s, DIGITS)}
        for outcome in ordered
    )
    data = text.getvalue().encode()
    replace_whole(path, lzma.compress(data, preset=9) if path.suffix == ".xz" else data)


def read_outcomes(path: Path) -> list[Outcome]:
    """Return the outcomes of a file; none where there is no file."""
    if not path.is_file():
        return []
    data = path.read_bytes()
    text = (lzma.decompress(data) if path.suffix == ".xz" else data).decode()
    return [_outcome(values) for values in csv.DictReader(io.StringIO(text))]


def _outcome(values: dict[str, str]) -> Outcome:
    whole = {name: int(values[name]) for name in ("seed", "budget", "launches", "failed")}
    return Outcome(
        values["space"], values["contestant"], **whole, ratio=float(values["ratio"]), cpu_s=float(values["cpu_s"])
    )
