# SPDX-License-Identifier: Apache-2.0
"""The table of designers: a name and a factory each."""

from collections.abc import Mapping
from types import MappingProxyType

from ringtune.tuner.space import SearchSpace

from .bagua import BaguaDesigner
from .base import Designer, DesignerFactory
from .gp import GaussianProcessDesigner
from .grid import GridDesigner
from .horovod import HorovodDesigner
from .random import RandomDesigner
from .skopt import SkoptDesigner

DESIGNERS: Mapping[str, DesignerFactory] = MappingProxyType(
    {
        "bagua": BaguaDesigner,
        "gp": GaussianProcessDesigner,
        "grid": GridDesigner,
        "horovod": HorovodDesigner,
        "random": RandomDesigner,
        "skopt": SkoptDesigner,
    }
)
DEFAULT_DESIGNER = "skopt"


def designer_names() -> tuple[str, ...]:
    """Return the names that `make_designer` knows."""
    return tuple(DESIGNERS)


def make_designer(name: str, space: SearchSpace, seed: int) -> Designer:
    """Return a new designer.

    Raises:
        ValueError: If there is none of this name; the message lists those there are.
    """
    if name not in DESIGNERS:
        raise ValueError(f"there is no designer {name!r}; there are {', '.join(DESIGNERS)}")
    return DESIGNERS[name](space, seed)
