# SPDX-License-Identifier: Apache-2.0
"""Bare samplers: asked for a config, told its time, launch after launch. The config of the lowest time is chosen."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from ringtune.tuner import Config

from .knob_grid import KnobGrid
from .outcomes import Choice
from .spaces import Launches, MeasuredSpace


class Sampler(Protocol):
    """A search method by itself."""

    def ask(self) -> Config:
        """Return the config of the next launch."""

    def tell(self, config: Config, ms: float | None) -> None:
        """Take the time of a launch, milliseconds, or None if it failed: the default's, then that of each `ask`."""


MakeSampler = Callable[[KnobGrid, int, int], Sampler]
"""Sampler from a grid, a seed, and the number of launches that it may plan for."""


def bare(
    make: MakeSampler, *, plans: bool = False
) -> Callable[[MeasuredSpace, Sequence[int], int], Mapping[int, Choice]]:
    """Return a contestant that launches the default first, and then the sampler's configs.

    Args:
        make: Makes the sampler.
        plans: Whether its search depends on the number of launches; others are asked for the largest budget once.
    """

    def choose(space: MeasuredSpace, budgets: Sequence[int], seed: int) -> Mapping[int, Choice]:
        if plans:
            return {budget: _search(make, space, [budget], seed)[budget] for budget in budgets}
        return _search(make, space, budgets, seed)

    return choose


def _search(make: MakeSampler, space: MeasuredSpace, budgets: Sequence[int], seed: int) -> dict[int, Choice]:
    began_s = time.process_time()
    sampler = make(space.grid, seed, max(budgets))
    spent_s = time.process_time() - began_s
    launches = Launches(space, seed)
    chosen, lowest_ms = space.default, float("inf")
    choices = {}
    config = space.default
    while launches.count < max(budgets):
        ms = launches.launch(config)
        if ms is not None and ms < lowest_ms:
            chosen, lowest_ms = config, ms
        if launches.count in budgets:
            each_s = spent_s / max(launches.count - 1, 1)
            choices[launches.count] = Choice(chosen, launches.count, launches.failed, each_s)
        began_s = time.process_time()
        sampler.tell(config, ms)
        config = sampler.ask()
        spent_s += time.process_time() - began_s
    return choices
