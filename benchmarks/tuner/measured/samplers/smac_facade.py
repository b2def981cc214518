# SPDX-License-Identifier: Apache-2.0
"""SMAC3 by ask and tell: its facade for hyper-parameters, with a random forest and expected improvement of ln(time).

Knobs whose values are numbers are ordinal. A launch that fails is told as crashed, at the slowest time so far: SMAC
takes the logarithm of costs, and has none for an infinite one.
"""

import logging
import math
import tempfile
from pathlib import Path

from ConfigSpace import CategoricalHyperparameter, Configuration, ConfigurationSpace, OrdinalHyperparameter
from smac import HyperparameterOptimizationFacade, Scenario
from smac.main.exceptions import ConfigurationSpaceExhaustedException
from smac.runhistory.dataclasses import TrialInfo, TrialValue
from smac.runhistory.enumerations import StatusType

from benchmarks.tuner.measured.knob_grid import KnobGrid
from ringtune.tuner import Config


class SmacSampler:
    """SMAC's facade; its folder of files is removed with it."""

    def __init__(self, grid: KnobGrid, seed: int, launches: int) -> None:
        """Plan for a number of launches, on which the size of SMAC's initial design depends."""
        self._folder = tempfile.TemporaryDirectory()
        box = ConfigurationSpace(seed=seed)
        for name, values in grid.knobs.items():
            make = OrdinalHyperparameter if grid.is_ordered(name) else CategoricalHyperparameter
            box.add(make(name, list(map(str, values)), default_value=str(grid.default[name])))
        self._box, self._grid = box, grid
        logging.disable(logging.WARNING)
        scenario = Scenario(
            box, output_directory=Path(self._folder.name), deterministic=True, n_trials=launches, seed=seed
        )
        self._smac = HyperparameterOptimizationFacade(scenario, _never_called, logging_level=False, overwrite=True)
        self._asked: TrialInfo | None = None
        self._slowest_ms = 0.0
        self._told: dict[Config, float] = {}
        self._is_exhausted = False

    def ask(self) -> Config:
        """Return SMAC's config; its fastest one once it has tried all."""
        try:
            self._asked = self._smac.ask()
        except (ConfigurationSpaceExhaustedException, StopIteration):
            self._is_exhausted = True
            return min(self._told, key=self._told.__getitem__)
        config = self._asked.config
        return self._grid.config_at(
            [list(map(str, values)).index(str(config[name])) for name, values in self._grid.knobs.items()]
        )

    def tell(self, config: Config, ms: float | None) -> None:
        """Tell SMAC; the default was not asked for."""
        self._told[config] = math.inf if ms is None else ms
        if self._is_exhausted:
            return
        info = self._asked or TrialInfo(
            Configuration(self._box, values={name: str(value) for name, value in config.items()}), seed=0
        )
        self._slowest_ms = max(self._slowest_ms, ms or 0.0)
        cost, status = (self._slowest_ms, StatusType.CRASHED) if ms is None else (ms, StatusType.SUCCESS)
        self._smac.tell(info, TrialValue(cost=cost, status=status), save=False)


def _never_called(config: Configuration, seed: int) -> float:
    """Stand where SMAC wants a function: launches are told to it instead."""
    raise AssertionError(f"SMAC has launched {config} by itself, with seed {seed}")
