# SPDX-License-Identifier: Apache-2.0
"""Search space: the parameters, the legal configs, and their encoding as vectors for a model."""

from .config import Config, Value
from .parameter_types import BooleanParameter, CategoryParameter, NumberParameter, Parameter
from .search_space import SearchSpace, SpaceError

__all__ = [
    "BooleanParameter",
    "CategoryParameter",
    "Config",
    "NumberParameter",
    "Parameter",
    "SearchSpace",
    "SpaceError",
    "Value",
]
