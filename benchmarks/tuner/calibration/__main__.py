# SPDX-License-Identifier: Apache-2.0
"""Error of the simulator against the real engine, at configs that it was not fitted to.

Start it by `python -m benchmarks.tuner.calibration`, on a quiet machine. It reads the recorded surfaces of
benchmarks/tuner/surfaces; with --record it first records small ones here, which takes about four minutes.
"""

import argparse
import os
import sys
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.tuner.regret.problems import SURFACES
from benchmarks.tuner.regret.recorded import SUFFIX, recorded_problem
from ringtune.measuring.bench.surface import SurfaceRequest, record_surface
from ringtune.measuring.bench.surface_file import read_surface
from ringtune.measuring.bench.surface_grid import Grid
from ringtune.measuring.bench.workloads import Workload, WorkloadGradient
from ringtune.tuner.simulator.architectures import MODELS
from ringtune.tuner.space.parameters import MIB

from .fit import Calibration, MeasuredSurface, calibrate

QUICK_GRID = Grid((0, 1 * MIB, 8 * MIB, 64 * MIB), (0.3, 1.0, 5.0, 20.0))
QUICK_MODELS = (("manysmall", 2), ("resnet50", 2), ("mobilenet_v2", 4))
"""Models of the quick run, with their numbers of ranks."""
QUICK_REPEATS = 2
QUICK_WINDOW_MS = 300.0
FITTED_SHARE = 1 / 3
AIM = 0.15


def main() -> None:
    """Calibrate to every surface and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--surfaces", type=Path, default=SURFACES, metavar="DIR", help="recorded surfaces")
    parser.add_argument("--record", type=Path, metavar="DIR", help="record small surfaces there, and use those")
    parser.add_argument("--seed", type=int, default=0, help="seed that draws the configs for the fit")
    arguments = parser.parse_args()
    folder = arguments.surfaces
    if arguments.record is not None:
        folder = arguments.record
        _record(folder)
    paths = sorted(folder.glob(f"*{SUFFIX}"))
    if not paths:
        raise SystemExit(f"{folder} holds no recorded surfaces; give another --surfaces, or record some with --record")
    table = _table()
    errors = []
    for path in paths:
        found = _calibrated(path, arguments.seed)
        errors.append(np.abs(found.errors))
        table.add_row(path.name.removesuffix(SUFFIX), *_cells(found))
    Console(width=None if sys.stdout.isatty() else 200).print(table)
    everywhere = np.median(np.concatenate(errors))
    sys.stdout.write(f"median absolute error at held-out configs of all surfaces: {100 * everywhere:.1f} %\n")
    sys.stdout.write(f"the aim is {100 * AIM:g} %\n")


def _record(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for model, ranks in QUICK_MODELS:
        gradients = tuple(WorkloadGradient(gradient.name, gradient.elements) for gradient in MODELS[model]())
        request = SurfaceRequest(
            folder / f"{model}_np{ranks}{SUFFIX}",
            ranks,
            Workload(model, gradients),
            QUICK_REPEATS,
            QUICK_GRID,
            window_ms=QUICK_WINDOW_MS,
        )
        record_surface(request, None, os.environ, Console(stderr=True))


def _calibrated(path: Path, seed: int) -> Calibration:
    header, _ = read_surface(path)
    measured = MeasuredSurface.of(header, recorded_problem(path).table.cell_ms)
    configs = list(measured.step_ms)
    count = max(round(FITTED_SHARE * len(configs)), 1)
    picked = np.random.default_rng(seed).choice(len(configs), size=count, replace=False)
    return calibrate(measured, [configs[int(index)] for index in picked])


def _table() -> Table:
    table = Table(title="The simulator against the engine, at configs it was not fitted to", title_justify="left")
    table.add_column("surface")
    for heading in ("fitted to", "held out", "median error, documented", "fitted", "90 % within", "scales"):
        table.add_column(heading, justify="left" if heading == "scales" else "right")
    return table


def _cells(found: Calibration) -> tuple[str, ...]:
    before, after = np.abs(found.errors_before), np.abs(found.errors)
    scales = ", ".join(f"{name} {scale:.2f}" for name, scale in found.scales.items())
    percent = (f"{100 * value:.1f} %" for value in (np.median(before), np.median(after), np.quantile(after, 0.9)))
    return str(found.fitted), str(len(after)), *percent, scales


if __name__ == "__main__":
    main()
