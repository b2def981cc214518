# SPDX-License-Identifier: Apache-2.0
"""Spaces that others measured in full: every config of a kernel with the times of its runs, or as one that fails.

A file `NAME.csv.gz` has a column for each knob, and `times_ms` with the runs of a config, empty where it is invalid. A
config of the box without a row fails as well. Knobs with one value are left out.
"""

import csv
import gzip
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median

import numpy as np

from ringtune.tuner import Config

from .knob_grid import KnobGrid, number, place_of

KINDS = ("convolution", "dedispersion")
"""Kernels whose files are read, by the beginning of their name."""
TIMES = "times_ms"
SUFFIX = ".csv.gz"
LAUNCH_S = 1.0
"""Duration of a launch, seconds: the start of the program and the compilation of the kernel, beside which a run of
milliseconds does not count."""


@dataclass(frozen=True)
class MeasuredSpace:
    """A space with the runs of all its configs.

    Attributes:
        name: Name of its file.
        knobs: Distinct values of each knob, ascending where all are numbers.
        runs_ms: Times of a config's runs, milliseconds; none where it is invalid.
    """

    name: str
    knobs: Mapping[str, tuple[str, ...]]
    runs_ms: Mapping[Config, tuple[float, ...]]

    @cached_property
    def _true_ms(self) -> Mapping[Config, float]:
        return {config: median(runs) for config, runs in self.runs_ms.items() if runs}

    @cached_property
    def best_ms(self) -> float:
        """The shortest true time, milliseconds."""
        return min(self._true_ms.values())

    @cached_property
    def default(self) -> Config:
        """The valid config whose true time is the median of all."""
        ordered = sorted(self._true_ms, key=lambda config: (self._true_ms[config], place_of(self.knobs, config)))
        return ordered[len(ordered) // 2]

    @cached_property
    def grid(self) -> KnobGrid:
        """Its knobs and its default, without the times; knobs whose values are all numbers have an order."""
        ordered = (name for name, values in self.knobs.items() if all(number(value) is not None for value in values))
        return KnobGrid(self.knobs, self.default, frozenset(ordered))

    def ratio(self, config: Config) -> float:
        """Return the true time of a valid config, in units of the best one."""
        return self._true_ms[config] / self.best_ms


class Launches:
    """Launches of a space's configs: each draws one of the recorded runs.

    Attributes:
        space: The space.
        count: Number of launches so far.
        failed: Number of those that failed.
    """

    def __init__(self, space: MeasuredSpace, seed: int) -> None:
        """Begin without a launch; `seed` decides which runs are drawn."""
        self.space = space
        self._rng = np.random.default_rng(seed)
        self.count = 0
        self.failed = 0

    def clock(self) -> float:
        """Return the time that the launches so far took, seconds."""
        return self.count * LAUNCH_S

    def launch(self, config: Config) -> float | None:
        """Return the time of a launch, milliseconds; None if it fails."""
        runs = self.space.runs_ms.get(config, ())
        self.count += 1
        self.failed += not runs
        return runs[int(self._rng.integers(len(runs)))] if runs else None


def read_spaces(folder: Path) -> dict[str, MeasuredSpace]:
    """Return the measured spaces of a folder by name.

    Args:
        folder: Folder with `measured/`.

    Raises:
        FileNotFoundError: If it has none.
    """
    paths = sorted(path for kind in KINDS for path in (folder / "measured").glob(f"{kind}_*{SUFFIX}"))
    if not paths:
        wanted = " or ".join(f"measured/{kind}_*{SUFFIX}" for kind in KINDS)
        raise FileNotFoundError(f"{folder} has no {wanted}; give the folder of the measurements with --data")
    spaces = [read_space(path) for path in paths]
    return {space.name: space for space in spaces}


def read_space(path: Path) -> MeasuredSpace:
    """Return the space of a file.

    Raises:
        ValueError: If no config of it is valid.
    """
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    columns = {name: _ascending({row[name] for row in rows}) for name in (rows[0] if rows else ()) if name != TIMES}
    knobs = {name: values for name, values in columns.items() if len(values) > 1}
    runs = {Config({name: row[name] for name in knobs}): tuple(map(float, row[TIMES].split())) for row in rows}
    if not any(runs.values()):
        raise ValueError(f"{path} has no config with a time in the column {TIMES}")
    return MeasuredSpace(path.name.removesuffix(SUFFIX), knobs, runs)


def _ascending(values: set[str]) -> tuple[str, ...]:
    return tuple(sorted(values, key=lambda value: (number(value) or 0.0, value)))
