# SPDX-License-Identifier: Apache-2.0
"""The search of launches with one of its rules off at a time."""

from collections.abc import Mapping

from ringtune.tuner import Config, SearchSpace
from ringtune.tuner.designers.candidates import RandomPool
from ringtune.tuner.designers.gp import RANDOM_PARTS, GaussianProcessDesigner
from ringtune.tuner.designers.initial_design import next_initial_config
from ringtune.tuner.gp.feasibility import Feasibility
from ringtune.tuner.gp.process import GaussianProcess


class LaunchSearch(GaussianProcessDesigner):
    """The search as it is where a bad trial costs no more than a good one."""

    def __init__(self, space: SearchSpace, seed: int) -> None:
        """Start without trials; `seed` decides every random choice."""
        super().__init__(space, seed, are_trials_cheap=True)


class WithoutFilling(LaunchSearch):
    """The initial design is a live job's: single changes of the default, one after another."""

    def _initial_config(self, tried: set[Config]) -> Config | None:
        return next_initial_config(self._space, self._best_of(self._measured()), tried, is_informed=False)


class WithoutSingleChanges(LaunchSearch):
    """No suggestion is kept for knobs that were not varied near the best config."""

    def _settling_config(self, process: GaussianProcess) -> Config | None:
        del process
        return None


class WithoutFeasibility(LaunchSearch):
    """Configs that fail are not tried again, but are no evidence about others."""

    def _learned_feasibility(self) -> Feasibility | None:
        return None


class WithoutRepeats(LaunchSearch):
    """No measured config is launched again before the adoption test."""

    def _most_valuable(self, process: GaussianProcess) -> Config:
        return self._settling_config(process) or self._most_promising(process)


class WithFewRandom(LaunchSearch):
    """Random candidates are as few as in a live job with a prior."""

    def __init__(self, space: SearchSpace, seed: int) -> None:
        """Start without trials; `seed` decides every random choice."""
        super().__init__(space, seed)
        self._pool = RandomPool(space, seed, RANDOM_PARTS)


ABLATED: Mapping[str, type[LaunchSearch]] = {
    "no filling configs": WithoutFilling,
    "no single changes": WithoutSingleChanges,
    "no model of failures": WithoutFeasibility,
    "no repeats": WithoutRepeats,
    "few random candidates": WithFewRandom,
}
"""Searches by the rule that is off."""
