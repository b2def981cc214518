# SPDX-License-Identifier: Apache-2.0
"""Public measurements of other engines as problems: Horovod's surfaces, and allreduces on real clusters.

They are read from a folder with `surfaces/` and `collectives/`. The files hold quantiles of step times. A window is
made from them: steps at evenly spread quantiles, in a random order that is always the same.

A tuner within a job never launches it anew: steps alone scatter (`public`). One that launches a command for each window
also meets the difference between launches of one config (`relaunched`), where that was measured.
"""

import csv
import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from ringtune.tuner import BooleanParameter, CategoryParameter, Config, NumberParameter, SearchSpace
from ringtune.tuner.space.parameters import KIB, MIB

from .recorded import measured_space
from .table import Table, TableProblem

Row = Mapping[str, str]
Key = TypeVar("Key")
STEPS = 40
"""Steps of a window that is made from quantiles."""
MIN_CONFIGS = 5
"""Smallest table, in configs, that makes a search."""
MIN_ALGORITHMS = 9
ALGORITHM = "allreduce_algorithm"
HOROVOD_DEFAULT = Config({"fusion_bytes": 128 * MIB, "cycle_ms": 1.0, "hierarchical_allreduce": False})
"""Defaults of Horovod 0.28."""
HOROVOD_PARAMETERS = (
    NumberParameter("fusion_bytes", 64 * KIB, 256 * MIB, 128 * MIB, scale="log2", step=64 * KIB, special=(0,)),
    NumberParameter("cycle_ms", 0.05, 100.0, 1.0, scale="log"),
    BooleanParameter("hierarchical_allreduce", default=False),
)
PICO_BYTES = (32 * KIB, 1 * MIB, 8 * MIB, 64 * MIB, 256 * MIB, 512 * MIB)
"""Sizes in which gradients are sent; the file has smaller messages, too."""
PICO_DEFAULTS = ("default_mpich", "default_ompi")
TCP_DEFAULT = "ignore"
"""Name of the library's own choice in that benchmark."""
TCP_BYTES = (16 * KIB, 64 * KIB, 256 * KIB, 1 * MIB)
EPYC_BYTES = (1 * MIB, 16 * MIB)
EPYC_DEFAULT = "mpich"


def public_problems(folder: Path) -> list[TableProblem]:
    """Return all problems that a folder's files make; those of files that are not there are left out."""
    return [TableProblem(table) for table in _tables(folder)]


def relaunched_problems(folder: Path) -> list[TableProblem]:
    """Return the problems of which some config was launched more than once, every window a launch of its own."""
    return [
        TableProblem(replace(table, name=f"{table.name}_relaunched", kind="relaunched", is_relaunched=True))
        for table in _tables(folder)
        if any(len(windows) > 1 for windows in table.cells.values())
    ]


def _tables(folder: Path) -> list[Table]:
    """Return the measured tables, as of jobs that are never launched anew."""
    tables = [
        *_horovod_tables(folder / "surfaces", folder / "gradients"),
        *_pico_tables(folder / "collectives" / "pico_lumi_leonardo.csv"),
        *_tcp_tables(folder / "collectives" / "tcp_8_hosts.csv"),
        *_epyc_tables(folder / "collectives" / "eth_cscs_epyc.csv"),
    ]
    return [replace(table, is_relaunched=False) for table in tables]


def steps_of(quantiles: Sequence[tuple[float, float]], seed: int, steps: int = STEPS) -> tuple[float, ...]:
    """Return steps with given quantiles.

    Args:
        quantiles: (share, milliseconds) in the order of the shares, from 0 to 1.
        seed: Decides their order.
        steps: Number of steps.
    """
    shares, values = zip(*quantiles, strict=True)
    places = (np.arange(steps) + 0.5) / steps
    ascending = np.interp(places, shares, np.maximum.accumulate(values))
    return tuple(float(value) for value in np.random.default_rng(seed).permutation(ascending))


def _horovod_tables(surfaces: Path, gradients: Path) -> Iterator[Table]:
    for path in sorted([*surfaces.glob("*_np*_*.csv"), *surfaces.glob("*_2x2_*.csv")]):
        rows = [row for row in _rows(path) if row.get("fusion_mb")]
        for backend, of_backend in _grouped(rows, lambda row: row["backend"]).items():
            cells = {
                config: tuple(_horovod_window(row, number) for number, row in enumerate(windows))
                for config, windows in _grouped(of_backend, _horovod_config).items()
            }
            model = of_backend[0]["workload"]
            name = path.stem if path.stem.endswith(backend) else f"{path.stem}_{backend}"
            if len(cells) >= MIN_CONFIGS and HOROVOD_DEFAULT in cells:
                space = measured_space(HOROVOD_PARAMETERS, list(cells), HOROVOD_DEFAULT)
                size = _model_bytes(gradients / f"{model}.json")
                yield Table(f"horovod_{name}", "public", space, HOROVOD_DEFAULT, cells, size)


def _horovod_config(row: Row) -> Config:
    fusion = round(float(row["fusion_mb"]) * MIB)
    cycle, hierarchical = float(row["cycle_ms"]), row["hierarchical"] == "1"
    return Config({"fusion_bytes": fusion, "cycle_ms": cycle, "hierarchical_allreduce": hierarchical})


def _horovod_window(row: Row, seed: int) -> tuple[float, ...]:
    least, middle, high = (float(row[name]) for name in ("step_ms_min", "step_ms", "step_ms_p90"))
    return steps_of([(0.0, least), (0.5, middle), (0.9, high), (1.0, high)], seed)


def _pico_tables(path: Path) -> Iterator[Table]:
    where = _grouped(_rows(path), lambda row: (row["system"], int(row["nnodes"]), int(row["ppn"])))
    for (system, nodes, ranks), rows in sorted(where.items()):
        for size in PICO_BYTES:
            sized = [row for row in rows if 4 * int(row["count_int32"]) == size]
            cells = _by_algorithm(sized, "algorithm", _pico_window)
            default = next((name for name in PICO_DEFAULTS if name in cells), None)
            if default is not None and len(cells) >= MIN_ALGORITHMS:
                yield _category_table(f"pico_{system}_{nodes}x{ranks}_{size // KIB}KiB", cells, default, size)


def _pico_window(row: Row) -> tuple[float, ...]:
    """Return a series' steps: its calls but for the first, which warms up and takes up to five times as long.

    With few calls the 95 % quantile is the slowest, often the first, and does not describe the others: their slow
    half then reaches as far as their mean asks for.
    """
    names = ("first", "min", "p05", "median", "mean", "p95", "max")
    first, least, low, middle, mean, high, most = (float(row[f"{name}_ns"]) * 1e-6 for name in names)
    fast_half = [(0.0, least), (0.05, low), (0.5, middle)]
    if high < most:
        return steps_of([*fast_half, (0.95, high), (1.0, high)], 0)
    left_out = {first, most}
    calls = int(row["iters"])
    rest_mean = (calls * mean - sum(left_out)) / (calls - len(left_out))
    fast_mean = 0.05 * (least + low) + 0.45 * (low + middle)
    slowest = 2.0 * (2.0 * rest_mean - fast_mean) - middle
    return steps_of([*fast_half, (1.0, max(slowest, middle))], 0)


def _tcp_tables(path: Path) -> Iterator[Table]:
    for name, rows in sorted(_grouped(_rows(path), lambda row: row["set"]).items()):
        for size in TCP_BYTES:
            sized = [row for row in rows if int(row["bytes"]) == size]
            cells = _by_algorithm(sized, "algorithm", _tcp_window)
            if TCP_DEFAULT in cells and len(cells) >= MIN_CONFIGS:
                yield _category_table(f"tcp_8_hosts_{name}_{size // KIB}KiB", cells, TCP_DEFAULT, size)


def _tcp_window(row: Row) -> tuple[float, ...]:
    least, mean, most = (float(row[f"{name}_us"]) * 1e-3 for name in ("min", "avg", "max"))
    return steps_of([(0.0, least), (0.5, mean), (1.0, most)], 0)


def _epyc_tables(path: Path) -> Iterator[Table]:
    for subfolder, rows in sorted(_grouped(_rows(path), lambda row: row["subdir"]).items()):
        for size in EPYC_BYTES:
            sized = [row for row in rows if int(row["bytes"]) == size]
            cells = _epyc_cells(sized)
            default = next((name for name in cells if EPYC_DEFAULT in name and "persistent" not in name), None)
            if default is not None and len(cells) >= MIN_CONFIGS:
                yield _category_table(f"epyc_{subfolder}_{size // KIB}KiB", cells, default, size)


def _epyc_cells(rows: Sequence[Row]) -> dict[str, tuple[tuple[float, ...], ...]]:
    """Return the repetitions of each library as the steps of one window."""
    series = _grouped(rows, lambda row: row["config"])
    return {name: (tuple(float(row["latency_us"]) * 1e-3 for row in of),) for name, of in series.items()}


def _by_algorithm(
    rows: Sequence[Row], column: str, window: Callable[[Row], tuple[float, ...]]
) -> dict[str, tuple[tuple[float, ...], ...]]:
    return {name: tuple(window(row) for row in of) for name, of in _grouped(rows, lambda row: row[column]).items()}


def _category_table(name: str, cells: Mapping[str, tuple[tuple[float, ...], ...]], default: str, size: int) -> Table:
    choice = CategoryParameter(ALGORITHM, tuple(sorted(cells)), default)
    by_config = {Config({ALGORITHM: algorithm}): windows for algorithm, windows in cells.items()}
    return Table(name, "public", SearchSpace([choice], {}), Config({ALGORITHM: default}), by_config, size)


def _grouped(rows: Sequence[Row], key: Callable[[Row], Key]) -> dict[Key, list[Row]]:
    groups: dict[Key, list[Row]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return groups


def _rows(path: Path) -> list[Row]:
    """Return a file's rows; none where there is no file."""
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _model_bytes(path: Path) -> int:
    return int(json.loads(path.read_text(encoding="utf-8"))["bytes"]) if path.is_file() else MIB
