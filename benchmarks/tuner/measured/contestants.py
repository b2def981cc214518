# SPDX-License-Identifier: Apache-2.0
"""Contestants on measured spaces: the policy of `ringtune tune` with each designer, and samplers by themselves."""

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ringtune.tuner import DEFAULT_DESIGNER, designer_names
from ringtune.tuner.designers.registry import LATE_MODULES

from .ablated import ABLATED
from .bare import MakeSampler, Sampler, bare
from .knob_grid import KnobGrid
from .launches import policy
from .outcomes import Choice
from .samplers.random_configs import RandomSampler
from .spaces import MeasuredSpace

Choose = Callable[[MeasuredSpace, Sequence[int], int], Mapping[int, Choice]]
"""Choices on a space, at each budget, from a seed."""


MODULES: Mapping[str, tuple[str, ...]] = {
    "smac": ("smac", "ConfigSpace"),
    "hebo": ("hebo", "pymoo", "torch"),
    "botorch": ("botorch", "gpytorch", "torch"),
}
"""Modules that a library's sampler needs."""
SAMPLERS: Mapping[str, tuple[str, str]] = {
    "smac": ("smac_facade", "SmacSampler"),
    "hebo": ("hebo_optimizer", "HeboSampler"),
    "botorch": ("botorch_gp", "BotorchSampler"),
}
"""Module and class of a library's sampler."""


@dataclass(frozen=True)
class Contestant:
    """A contestant, and the modules that it needs.

    Attributes:
        choose: Makes its choices.
        modules: Modules that do not come with ringtune.
    """

    choose: Choose
    modules: tuple[str, ...] = ()

    @property
    def missing(self) -> tuple[str, ...]:
        """The modules that are not installed."""
        return missing_modules(self.modules)


def missing_modules(modules: Sequence[str]) -> tuple[str, ...]:
    """Return which modules are not installed."""
    return tuple(module for module in modules if importlib.util.find_spec(module) is None)


def library_sampler(name: str) -> MakeSampler:
    """Return a sampler of `SAMPLERS`; its library is imported when it begins."""

    def make(grid: KnobGrid, seed: int, launches: int) -> Sampler:
        module, made = SAMPLERS[name]
        maker: MakeSampler = getattr(importlib.import_module(f"{__package__}.samplers.{module}"), made)
        return maker(grid, seed, launches)

    return make


def _study(sampler: str, *, all_categories: bool = False) -> Contestant:
    def make(grid: KnobGrid, seed: int, launches: int) -> Sampler:
        del launches
        from .samplers.optuna_study import StudySampler  # noqa: PLC0415  (an extra)

        return StudySampler(grid, seed, sampler, all_categories=all_categories)

    return Contestant(bare(make), LATE_MODULES[f"optuna:{sampler}"])


def _with_designer(name: str, *, counts_all: bool = False) -> Contestant:
    modules = LATE_MODULES[name] if name.startswith("optuna:") else ()
    return Contestant(policy(name, counts_all=counts_all), modules)


RULE_OFF = "ringtune with "
"""Beginning of the name of a search with a rule off."""
CONTESTANTS: Mapping[str, Contestant] = {
    "ringtune": _with_designer(DEFAULT_DESIGNER),
    "ringtune, all launches": _with_designer(DEFAULT_DESIGNER, counts_all=True),
    **{f"ringtune, {name}": _with_designer(name) for name in designer_names() if name != DEFAULT_DESIGNER},
    **{f"{RULE_OFF}{rule}": Contestant(policy(DEFAULT_DESIGNER, make=make)) for rule, make in ABLATED.items()},
    "random": Contestant(bare(RandomSampler)),
    "tpe": _study("tpe"),
    "tpe, categories": _study("tpe", all_categories=True),
    "cmaes": _study("cmaes"),
    "optuna gp": _study("gp"),
    **{name: Contestant(bare(library_sampler(name), plans=name == "smac"), MODULES[name]) for name in SAMPLERS},
}
"""Contestants by name, ours first: `ringtune, NAME` has the designer NAME in place of the default."""
