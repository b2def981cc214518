# SPDX-License-Identifier: Apache-2.0
"""Random search: configs drawn from the box, each as likely as another."""

import numpy as np

from benchmarks.tuner.measured.knob_grid import KnobGrid
from ringtune.tuner import Config


class RandomSampler:
    """Draws a value of each knob."""

    def __init__(self, grid: KnobGrid, seed: int, launches: int) -> None:
        """Begin; `seed` decides every draw."""
        del launches
        self._grid = grid
        self._rng = np.random.default_rng([seed, 1])  # other numbers than those that draw the runs

    def ask(self) -> Config:
        """Return a random config."""
        return self._grid.config_at([int(self._rng.integers(len(values))) for values in self._grid.knobs.values()])

    def tell(self, config: Config, ms: float | None) -> None:
        """Ignore it, as random search does not learn."""
