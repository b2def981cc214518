# SPDX-License-Identifier: Apache-2.0
"""Registry of designers: a name and a factory for each."""

import importlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType

from ringtune.tuner.priors.base import Prior
from ringtune.tuner.space.search_space import SearchSpace

from .base import Designer, DesignerFactory
from .gp import GaussianProcessDesigner
from .optuna import MODULES as OPTUNA_MODULES
from .optuna import OptunaDesigner
from .random import RandomDesigner
from .skopt import SkoptDesigner


def _plain(factory: Callable[[SearchSpace, int], Designer]) -> DesignerFactory:
    """Return a factory that ignores priors and the price of a trial, for designers that cannot use them."""

    def make(space: SearchSpace, seed: int, _priors: Sequence[Prior], /, *, are_trials_cheap: bool) -> Designer:
        del are_trials_cheap
        return factory(space, seed)

    return make


DESIGNERS: Mapping[str, DesignerFactory] = MappingProxyType(
    {
        "gp": GaussianProcessDesigner,
        "random": _plain(RandomDesigner),
        "skopt": _plain(SkoptDesigner),
        **{f"optuna:{sampler}": _plain(partial(OptunaDesigner, sampler)) for sampler in OPTUNA_MODULES},
    }
)
DEFAULT_DESIGNER = "gp"
LATE_MODULES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "gp": ("ringtune.tuner.gp.feasibility", "scipy.optimize"),
        "skopt": ("skopt.acquisition", "skopt.learning"),
        **{f"optuna:{sampler}": modules for sampler, modules in OPTUNA_MODULES.items()},
    }
)
"""Modules that a designer imports at its first suggestion, by the name of the designer."""


def designer_names() -> tuple[str, ...]:
    """Return the names that `make_designer` knows."""
    return tuple(DESIGNERS)


def load_designer(name: str) -> None:
    """Import the late modules of a designer in advance: at its first suggestion the import would disturb training.

    Raises:
        ImportError: If a module is not installed.
    """
    for module in LATE_MODULES.get(name, ()):
        importlib.import_module(module)


def make_designer(
    name: str, space: SearchSpace, seed: int, priors: Sequence[Prior] = (), *, are_trials_cheap: bool = False
) -> Designer:
    """Return a new designer.

    Args:
        name: One of `designer_names`.
        space: The legal configs.
        seed: Seed of every random choice.
        priors: Expected step times before the first sample, the most trusted prior first; some designers ignore them.
        are_trials_cheap: Whether a bad trial costs no more than a good one, as a launch does, while a live job would
            train slowly meanwhile; some designers ignore it.

    Raises:
        ValueError: If no designer has this name; the message lists the names.
        ConfigError: If the designer needs a package that is not installed; the message says how to install it.
    """
    if name not in DESIGNERS:
        raise ValueError(f"there is no designer {name!r}; there are {', '.join(DESIGNERS)}")
    return DESIGNERS[name](space, seed, priors, are_trials_cheap=are_trials_cheap)
