# SPDX-License-Identifier: Apache-2.0
"""Registry of designers: a name and a factory for each."""

import importlib
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from ringtune.tuner.priors.base import Prior
from ringtune.tuner.space.search_space import SearchSpace

from .base import Designer, DesignerFactory
from .gp import GaussianProcessDesigner
from .random import RandomDesigner
from .skopt import SkoptDesigner


def _without_priors(factory: Callable[[SearchSpace, int], Designer]) -> DesignerFactory:
    """Return a factory that ignores the priors, for designers that cannot use them."""
    return lambda space, seed, _: factory(space, seed)


DESIGNERS: Mapping[str, DesignerFactory] = MappingProxyType(
    {
        "gp": GaussianProcessDesigner,
        "random": _without_priors(RandomDesigner),
        "skopt": _without_priors(SkoptDesigner),
    }
)
DEFAULT_DESIGNER = "gp"
LATE_MODULES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "gp": ("ringtune.tuner.gp.process", "scipy.optimize"),
        "skopt": ("skopt.acquisition", "skopt.learning"),
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


def make_designer(name: str, space: SearchSpace, seed: int, priors: Sequence[Prior] = ()) -> Designer:
    """Return a new designer.

    Args:
        name: One of `designer_names`.
        space: The legal configs.
        seed: Seed of every random choice.
        priors: Expected step times before the first sample, the most trusted prior first; some designers ignore them.

    Raises:
        ValueError: If no designer has this name; the message lists the names.
    """
    if name not in DESIGNERS:
        raise ValueError(f"there is no designer {name!r}; there are {', '.join(DESIGNERS)}")
    return DESIGNERS[name](space, seed, priors)
