# SPDX-License-Identifier: Apache-2.0
"""Optuna's samplers by ask and tell, as in its documentation: ln(time), and a failed trial where a launch fails.

The Gaussian process gets the slowest time so far instead: it does not see failed trials, and would ask for such configs
again and again, nine launches in ten.
"""

import math
from collections.abc import Callable

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.trial import TrialState, create_trial

from benchmarks.tuner.measured.knob_grid import KnobGrid
from ringtune.tuner import Config

SAMPLERS: dict[str, Callable[[int], optuna.samplers.BaseSampler]] = {
    "tpe": lambda seed: optuna.samplers.TPESampler(seed=seed, multivariate=True),
    "cmaes": lambda seed: optuna.samplers.CmaEsSampler(seed=seed, warn_independent_sampling=False),
    "gp": lambda seed: optuna.samplers.GPSampler(seed=seed, deterministic_objective=False),
}
"""Samplers by name, from a seed."""


class StudySampler:
    """A study. Knobs whose values are numbers are their indices, in order; others are categories."""

    def __init__(self, grid: KnobGrid, seed: int, sampler: str, *, all_categories: bool = False) -> None:
        """Start a study.

        Args:
            grid: The space.
            seed: Decides every random choice.
            sampler: A name in `SAMPLERS`.
            all_categories: Whether knobs of numbers are categories as well.
        """
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._grid = grid
        self._study = optuna.create_study(sampler=SAMPLERS[sampler](seed))
        self._distributions: dict[str, BaseDistribution] = {
            name: IntDistribution(0, len(values) - 1)
            if grid.is_ordered(name) and not all_categories
            else CategoricalDistribution(range(len(values)))
            for name, values in grid.knobs.items()
        }
        self._asked: optuna.Trial | None = None
        self._learns_failures = sampler == "gp"
        self._slowest_ms = 0.0

    def ask(self) -> Config:
        """Return the sampler's config."""
        self._asked = self._study.ask(self._distributions)
        return self._grid.config_at([self._asked.params[name] for name in self._distributions])

    def tell(self, config: Config, ms: float | None) -> None:
        """Tell the study; the default was not asked for."""
        self._slowest_ms = max(self._slowest_ms, ms or 0.0)
        if ms is None and self._learns_failures:
            ms = self._slowest_ms
        value, state = (None, TrialState.FAIL) if ms is None else (math.log(ms), TrialState.COMPLETE)
        if self._asked is not None:
            self._study.tell(self._asked, value, state)
            return
        params = dict(zip(self._distributions, self._grid.place(config), strict=True))
        trial = create_trial(params=params, distributions=self._distributions, value=value, state=state)
        self._study.add_trial(trial)
