# SPDX-License-Identifier: Apache-2.0
"""Optimum of a scenario: its shortest step, found once in seconds to a minute, and kept in the user's cache folder.

A digest of the scenario and of the simulator's sources names the file: a change of either finds the optimum anew.
"""

import hashlib
import json
import os
from functools import cache
from pathlib import Path

import numpy as np

from ringtune.system.cache_files import user_cache_folder
from ringtune.system.whole_file import replace_whole
from ringtune.tuner import Config, simulator
from ringtune.tuner.designers.candidates import neighbour
from ringtune.tuner.simulator import Scenario, SimulatedTarget
from ringtune.tuner.testing import coarse_grid

GRID_POINTS = 6
CLIMBS = 5
"""The best of the grid from which the optimum is climbed to."""
CLIMB_STEPS = (0.1, 0.05, 0.025, 0.0125)
TRIES = 60


def optimum_ms(scenario: Scenario, folder: Path | None = None) -> float:
    """Return the shortest noise-free step, milliseconds.

    Args:
        scenario: The scenario.
        folder: Folder that keeps it; None is the user's cache folder.
    """
    place = (user_cache_folder(os.environ) if folder is None else folder) / "regret" / f"{_digest(scenario)}.json"
    try:
        return float(json.loads(place.read_text(encoding="utf-8"))["optimum_ms"])
    except (OSError, ValueError, KeyError, TypeError):
        target = scenario.target(0)
        found = target.step_ms(search_optimum(target))
    place.parent.mkdir(parents=True, exist_ok=True)
    replace_whole(place, json.dumps({"scenario": scenario.name, "optimum_ms": found}).encode())
    return found


def search_optimum(target: SimulatedTarget) -> Config:
    """Return the config with the shortest noise-free step: of a grid, and of climbs from its best."""
    space, step_ms = target.space(), target.step_ms
    best = sorted(coarse_grid(space, GRID_POINTS), key=step_ms)[:CLIMBS]
    rng = np.random.default_rng(0)
    for step in CLIMB_STEPS:
        for index, config in enumerate(best):
            near = [neighbour(space, config, rng, step) for _ in range(TRIES)]
            best[index] = min([config, *near], key=step_ms)
    return min([target.baseline(), *best], key=step_ms)


def _digest(scenario: Scenario) -> str:
    inputs = (scenario.job, scenario.cluster, scenario.machine, scenario.target(0).baseline())
    return hashlib.sha256(f"{inputs!r} {_sources_digest()}".encode()).hexdigest()[:32]


@cache
def _sources_digest() -> str:
    """Return the digest of the simulator's steps and of the search for optima."""
    folder = Path(simulator.__file__).parent
    sources = (Path(__file__), *(source for source in sorted(folder.glob("*.py")) if source.name != "scenarios.py"))
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()
