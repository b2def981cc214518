# SPDX-License-Identifier: Apache-2.0
"""Random search: configs drawn from the box, each as likely as another."""

import numpy as np

from benchmarks.tuner.measured.spaces import MeasuredSpace
from ringtune.tuner import Config


class RandomSampler:
    """Draws a value of each knob."""

    def __init__(self, space: MeasuredSpace, seed: int, launches: int) -> None:
        """Begin; `seed` decides every draw."""
        del launches
        self._space = space
        self._rng = np.random.default_rng([seed, 1])  # other numbers than those that draw the runs

    def ask(self) -> Config:
        """Return a random config."""
        return self._space.config_at([int(self._rng.integers(len(values))) for values in self._space.knobs.values()])

    def tell(self, config: Config, ms: float | None) -> None:
        """Learn nothing."""
