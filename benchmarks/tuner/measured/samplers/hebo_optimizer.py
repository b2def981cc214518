# SPDX-License-Identifier: Apache-2.0
"""HEBO with its defaults: a Gaussian process over warped numbers, and three acquisition functions at once.

Knobs whose values are numbers are their indices, as whole numbers; others are categories. HEBO leaves out values that
are not finite, so a launch that fails is reported as the slowest time so far.
"""

import numpy as np
import pandas as pd
import torch
from hebo.design_space.design_space import DesignSpace
from hebo.optimizers.hebo import HEBO
from pymoo.config import Config as PymooConfig

from benchmarks.tuner.measured.knob_grid import KnobGrid
from ringtune.tuner import Config


class HeboSampler:
    """HEBO over a space."""

    def __init__(self, grid: KnobGrid, seed: int, launches: int) -> None:
        """Begin; HEBO draws from the generators of numpy and torch, which `seed` sets."""
        del launches
        np.random.seed(seed)  # noqa: NPY002  (HEBO's own generator)
        torch.manual_seed(seed)
        torch.set_num_threads(1)
        PymooConfig.warnings["not_compiled"] = False
        self._grid = grid
        parameters = [
            {"name": name, "type": "int", "lb": 0, "ub": len(values) - 1}
            if grid.is_ordered(name)
            else {"name": name, "type": "cat", "categories": list(range(len(values)))}
            for name, values in grid.knobs.items()
        ]
        self._optimizer = HEBO(DesignSpace().parse(parameters), scramble_seed=seed)
        self._slowest_ms = 0.0

    def ask(self) -> Config:
        """Return HEBO's suggestion."""
        row = self._optimizer.suggest().iloc[0]
        return self._grid.config_at([int(row[name]) for name in self._grid.knobs])

    def tell(self, config: Config, ms: float | None) -> None:
        """Tell HEBO."""
        self._slowest_ms = max(self._slowest_ms, ms or 0.0)
        place = dict(zip(self._grid.knobs, self._grid.place(config), strict=True))
        self._optimizer.observe(pd.DataFrame([place]), np.array([[self._slowest_ms if ms is None else ms]]))
