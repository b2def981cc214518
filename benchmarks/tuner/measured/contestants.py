# SPDX-License-Identifier: Apache-2.0
"""Contestants on measured spaces: the policy of `ringtune tune` with each designer, and samplers by themselves."""

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ringtune.tuner import DEFAULT_DESIGNER, designer_names

from .bare import MakeSampler, Sampler, bare
from .launches import policy
from .outcomes import Choice
from .samplers.random_configs import RandomSampler
from .spaces import MeasuredSpace

Choose = Callable[[MeasuredSpace, Sequence[int], int], Mapping[int, Choice]]
"""Choices on a space, at each budget, from a seed."""


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
        return tuple(module for module in self.modules if importlib.util.find_spec(module) is None)


OPTUNA_MODULES: Mapping[str, tuple[str, ...]] = {"cmaes": ("optuna", "cmaes"), "gp": ("optuna", "torch")}
"""Modules of a sampler of Optuna; others need Optuna alone."""


def _study(sampler: str, *, all_categories: bool = False) -> Contestant:
    def make(space: MeasuredSpace, seed: int, launches: int) -> Sampler:
        del launches
        from .samplers.optuna_study import StudySampler  # noqa: PLC0415  (an extra)

        return StudySampler(space, seed, sampler, all_categories=all_categories)

    return Contestant(bare(make), OPTUNA_MODULES.get(sampler, ("optuna",)))


def _late(module: str, name: str, needs: tuple[str, ...], *, plans: bool = False) -> Contestant:
    """Return a sampler of a module whose libraries may be missing."""

    def make(space: MeasuredSpace, seed: int, launches: int) -> Sampler:
        maker: MakeSampler = getattr(importlib.import_module(f"{__package__}.samplers.{module}"), name)
        return maker(space, seed, launches)

    return Contestant(bare(make, plans=plans), needs)


def _with_designer(name: str, *, counts_all: bool = False) -> Contestant:
    library, _, sampler = name.partition(":")
    modules = OPTUNA_MODULES.get(sampler, ("optuna",)) if library == "optuna" else ()
    return Contestant(policy(name, counts_all=counts_all), modules)


CONTESTANTS: Mapping[str, Contestant] = {
    "ringtune": _with_designer(DEFAULT_DESIGNER),
    "ringtune, all launches": _with_designer(DEFAULT_DESIGNER, counts_all=True),
    **{f"ringtune, {name}": _with_designer(name) for name in designer_names() if name != DEFAULT_DESIGNER},
    "random": Contestant(bare(RandomSampler)),
    "tpe": _study("tpe"),
    "tpe, categories": _study("tpe", all_categories=True),
    "cmaes": _study("cmaes"),
    "optuna gp": _study("gp"),
    "smac": _late("smac_facade", "SmacSampler", ("smac", "ConfigSpace"), plans=True),
    "hebo": _late("hebo_optimizer", "HeboSampler", ("hebo", "pymoo", "torch")),
    "botorch": _late("botorch_gp", "BotorchSampler", ("botorch", "gpytorch", "torch")),
}
"""Contestants by name, ours first: `ringtune, NAME` has the designer NAME in place of the default."""
