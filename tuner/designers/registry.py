# SPDX-License-Identifier: Apache-2.0
"""The table of designers: a name and a factory each."""

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
    """Return a factory of designers that have no use for what is known beforehand."""
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
"""What designers import when they first work."""


def designer_names() -> tuple[str, ...]:
    """Return the names that `make_designer` knows."""
    return tuple(DESIGNERS)


def load_designer(name: str) -> None:
    """Import now what a designer would import on its first suggestion, which takes long enough to disturb training.

    Raises:
        ImportError: If it is not installed.
    """
    for module in LATE_MODULES.get(name, ()):
        importlib.import_module(module)


def make_designer(name: str, space: SearchSpace, seed: int, priors: Sequence[Prior] = ()) -> Designer:
    """Return a new designer.

    Args:
        name: As in `designer_names`.
        space: The legal configs.
        seed: Decides every random choice.
        priors: What is known before the first sample, the most trusted first; not every designer has a use for it.

    Raises:
        ValueError: If there is none of this name; the message lists those there are.
    """
    if name not in DESIGNERS:
        raise ValueError(f"there is no designer {name!r}; there are {', '.join(DESIGNERS)}")
    return DESIGNERS[name](space, seed, priors)
