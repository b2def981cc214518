# SPDX-License-Identifier: Apache-2.0
"""Measured table as a problem: its cells give the true step times, and their scatter is the noise.

A cell's true step time is its median, or the shrunken estimate where cells were measured repeatedly (`shrinkage.py`).
Between measured numbers ln(step time) is interpolated linearly on the parameter's scale: no config is faster than the
fastest cell, which is the optimum. Special values, switches and categories are not interpolated. A combination that was
not measured has the value of the nearest one that was: fewest other switches first, then nearest numbers.

A window is drawn from all windows under the nearest cell's switches, categories and special values: consecutive steps
from a random one on, relative to the true step time of their cell. So the noise is the machine's, between steps and
between launches. Where a job is never launched anew, steps are relative to the window's own median, and the noise is
that between steps. The nearest cell alone has two or three windows, too few for noise; all cells together would give
the noise of a thousand small messages to one large one.
"""

import hashlib
import itertools
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import median

import numpy as np
from numpy.typing import NDArray

from ringtune.tuner import Config, NumberParameter, Prior, SearchSpace, Window, WindowSpec
from ringtune.tuner.cutting import steps_until_cut
from ringtune.tuner.sample import MAD_TO_STD
from ringtune.tuner.space.config import Value

from .problem import Problem
from .shrinkage import branch_of, median_ms, shrunken_ms

Array = NDArray[np.float64]
TENSOR_SET = 1


@dataclass(frozen=True)
class Table:
    """Measured table.

    Attributes:
        name: The problem's name.
        kind: The problem's kind.
        space: Legal configs; numbers range from the least to the most that was measured.
        baseline: Config without tuning; its cell is there.
        cells: Step times in milliseconds by config, a row per window; every window has a step.
        bytes_per_step: Gradient bytes of a step.
        cost_model: Prior that a job has at its start, if any.
        is_relaunched: Whether every window is of a launch of its own; else steps alone scatter.
        ranks_per_host: Layout of a job of this engine; empty for other engines.
    """

    name: str
    kind: str
    space: SearchSpace
    baseline: Config
    cells: Mapping[Config, tuple[tuple[float, ...], ...]]
    bytes_per_step: int
    cost_model: Callable[[], Prior | None] = field(default=lambda: None, compare=False)
    is_relaunched: bool = True
    ranks_per_host: tuple[int, ...] = ()

    @cached_property
    def cell_ms(self) -> Mapping[Config, float]:
        """The median of each cell's windows, milliseconds."""
        return median_ms(self.cells)

    @cached_property
    def true_ms(self) -> Mapping[Config, float]:
        """Estimates of the cells' true step times from all cells, milliseconds."""
        return shrunken_ms(self.cells, self.space)

    @cached_property
    def _axes(self) -> Mapping[str, list[float]]:
        """The measured numbers of each free number, ascending."""
        found: dict[str, list[float]] = {}
        for parameter in self.space.free:
            if isinstance(parameter, NumberParameter):
                values = {config[parameter.name] for config in self.cells} - set(parameter.special)
                found[parameter.name] = sorted(float(value) for value in values)
        return found

    @cached_property
    def _nearest(self) -> dict[Config, Config]:
        return {}

    def step_ms(self, config: Config) -> float:
        """Return the true step time of any legal config, milliseconds."""
        return math.exp(sum(weight * math.log(self.true_ms[cell]) for cell, weight in self._corners(config)))

    def noise_at(self, config: Config) -> Sequence[Array]:
        """Return the windows that may be drawn at a config: steps, one or more, over the true time of their cell.

        Where the job is not relaunched they are over their own window's median.
        """
        nearest = max(self._corners(config), key=lambda corner: corner[1])[0]
        return self._noise[branch_of(nearest, self.space)]

    @cached_property
    def _noise(self) -> Mapping[tuple[Value | None, ...], Sequence[Array]]:
        """All windows as of `noise_at`, by branch."""
        found: dict[tuple[Value | None, ...], list[Array]] = {}
        for cell, windows in self.cells.items():
            branch = found.setdefault(branch_of(cell, self.space), [])
            branch += [np.asarray(w) / (self.true_ms[cell] if self.is_relaunched else median(w)) for w in windows]
        return found

    def _corners(self, config: Config) -> list[tuple[Config, float]]:
        """Return the measured configs around one, and their weights."""
        sides = [self._sides(parameter.name, config[parameter.name]) for parameter in self.space.free]
        names = [parameter.name for parameter in self.space.free]
        corners = []
        for combination in itertools.product(*sides):
            at = config.replace({name: value for name, (value, _) in zip(names, combination, strict=True)})
            corners.append((self._measured(at), math.prod(weight for _, weight in combination)))
        return corners

    def _sides(self, name: str, value: Value) -> list[tuple[Value, float]]:
        """Return the measured values below and above one, and their weights."""
        parameter = next(p for p in self.space.free if p.name == name)
        if not isinstance(parameter, NumberParameter) or value in parameter.special:
            return [(value, 1.0)]
        axis = self._axes[name]
        above = int(np.searchsorted(axis, float(value)))
        if above == 0 or axis[min(above, len(axis) - 1)] == float(value):
            return [(parameter.check(axis[above]), 1.0)]
        low, high = parameter.check(axis[above - 1]), parameter.check(axis[above])
        at, first, last = (parameter.encode(v)[-1] for v in (value, low, high))
        share = (at - first) / (last - first)
        return [(low, 1.0 - share), (high, share)]

    def _measured(self, config: Config) -> Config:
        """Return the config itself if it was measured, else the nearest that was."""
        if config in self.cells:
            return config
        if config not in self._nearest:
            self._nearest[config] = min(self.cells, key=lambda other: self._distance(config, other))
        return self._nearest[config]

    def _distance(self, config: Config, other: Config) -> tuple[int, float]:
        differing, square = 0, 0.0
        for parameter in self.space.free:
            mine, its = config[parameter.name], other[parameter.name]
            if not isinstance(parameter, NumberParameter) or mine in parameter.special or its in parameter.special:
                differing += mine != its
            else:
                square += (parameter.encode(mine)[-1] - parameter.encode(its)[-1]) ** 2
        return differing, square


@dataclass(frozen=True)
class TableProblem(Problem):
    """A table, replayed.

    Attributes:
        table: The table.
        has_noise: Whether windows are drawn; else every step takes the true time.
    """

    table: Table
    has_noise: bool = True

    @property
    def name(self) -> str:  # type: ignore[override]
        """The table's."""
        return self.table.name

    @property
    def kind(self) -> str:  # type: ignore[override]
        """The table's."""
        return self.table.kind

    @property
    def ranks_per_host(self) -> tuple[int, ...]:  # type: ignore[override]
        """The table's."""
        return self.table.ranks_per_host

    @cached_property
    def step_noise(self) -> float:  # type: ignore[override]
        """Median over all windows of the robust deviation of ln(step time)."""
        logs = [np.log(w) for windows in self.table.cells.values() for w in windows if len(w) > 1]
        return float(np.median([MAD_TO_STD * np.median(np.abs(y - np.median(y))) for y in logs])) if logs else 0.0

    @cached_property
    def data_digest(self) -> str:  # type: ignore[override]
        """SHA-256, shortened, of the table's baseline and cells."""
        cells = [[config.to_json(), windows] for config, windows in self.table.cells.items()]
        text = json.dumps([self.baseline.to_json(), cells], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def baseline(self) -> Config:
        """The config without tuning."""
        return self.table.baseline

    @cached_property
    def optimum_ms(self) -> float:
        """The shortest step of a cell, milliseconds."""
        return min(self.table.true_ms.values())

    @property
    def without_noise(self) -> "TableProblem":
        """The same, every step as long as is true."""
        return replace(self, has_noise=False)

    def target(self, seed: int) -> "TableTarget":
        """Return the replay as a new target."""
        return TableTarget(self.table, seed, has_noise=self.has_noise)

    def step_ms(self, config: Config) -> float:
        """Return a config's true step time, milliseconds."""
        return self.table.step_ms(config)

    def cost_model(self, seed: int) -> Prior | None:
        """Return the model that a job would have at its start, from the calls measured at one; no seed changes it."""
        del seed
        return self.table.cost_model()


class TableTarget:
    """A table behind the target protocol.

    Attributes:
        now_s: The replayed time, seconds.
        paused_s: None of it: a table has steps alone.
    """

    name = "table"

    def __init__(self, table: Table, seed: int, *, has_noise: bool) -> None:
        """Begin with the baseline in force."""
        self._table = table
        self._rng = np.random.default_rng(seed)
        self._has_noise = has_noise
        self._config = table.baseline
        self._epoch = 0
        self.now_s = 0.0
        self.paused_s = 0.0

    def clock(self) -> float:
        """Return the replayed time in seconds."""
        return self.now_s

    def space(self) -> SearchSpace:
        """Return the legal configs."""
        return self._table.space

    def baseline(self) -> Config:
        """Return the config without tuning."""
        return self._table.baseline

    def apply(self, config: Config) -> int:
        """Switch at once.

        Raises:
            SpaceError: If the config is not legal.
        """
        self._config = self._table.space.validate(config)
        self._epoch += 1
        return self._epoch

    def windows(self, spec: WindowSpec) -> Iterator[Window]:
        """Yield windows without end."""
        settle_steps = spec.settle_steps
        while True:
            step_ms = self._draw(settle_steps + spec.steps)
            settled, measured = step_ms[:settle_steps], step_ms[settle_steps:]
            kept = steps_until_cut(measured.tolist(), spec.limit_ms)
            measured, was_cut = measured[:kept], kept < len(measured)
            self.now_s += float(settled.sum() + measured.sum()) * 1e-3
            settle_steps = 0
            size = self._table.bytes_per_step
            yield Window(spec.epoch, tuple(measured.tolist()), size, TENSOR_SET, was_cut=was_cut)

    def _draw(self, steps: int) -> Array:
        """Return step times in a row, shape (steps,), milliseconds."""
        true_ms = self._table.step_ms(self._config)
        if not self._has_noise:
            return np.full(steps, true_ms)
        windows = self._table.noise_at(self._config)
        window = windows[int(self._rng.integers(len(windows)))]
        start = int(self._rng.integers(len(window)))
        return true_ms * window[(start + np.arange(steps)) % len(window)]
