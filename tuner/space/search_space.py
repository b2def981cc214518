# SPDX-License-Identifier: Apache-2.0
"""The search space: legal configs, free parameters, and the encoding of a config as a vector.

The vector has the coordinates of the *free* parameters only, in the order of the parameters, each in [0, 1].
"""

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

from .config import Config, Value
from .parameter_types import (
    BooleanParameter,
    CategoryParameter,
    NumberParameter,
    Parameter,
    Scale,
    SpaceError,
    parameter_from_json,
)

__all__ = [
    "BooleanParameter",
    "CategoryParameter",
    "Config",
    "NumberParameter",
    "Parameter",
    "Scale",
    "SearchSpace",
    "SpaceError",
    "Value",
]

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Vector: TypeAlias = "NDArray[np.float64]"


class SearchSpace:
    """The set of legal configs: a value for every parameter; a fixed parameter has one legal value."""

    def __init__(self, parameters: Sequence[Parameter], fixed: Mapping[str, Value]) -> None:
        """Build the space.

        Args:
            parameters: All parameters, with distinct names.
            fixed: Values that the tuner does not change, by parameter name.

        Raises:
            SpaceError: If a fixed name is unknown, or its value is not allowed.
        """
        self.parameters: tuple[Parameter, ...] = tuple(parameters)
        self._by_name = {parameter.name: parameter for parameter in self.parameters}
        unknown = sorted(set(fixed) - set(self._by_name))
        if unknown:
            raise SpaceError(f"{', '.join(unknown)}: no such parameter; there are {', '.join(self._by_name)}")
        self.fixed = Config({name: self._by_name[name].check(value) for name, value in fixed.items()})
        self.free: tuple[Parameter, ...] = tuple(p for p in self.parameters if p.name not in self.fixed)

    @cached_property
    def config_count(self) -> float:
        """The number of configs that a search can reach; infinite if a fractional number is free."""
        return math.prod(parameter.count for parameter in self.free)

    @cached_property
    def dimension(self) -> int:
        """The length of an encoded config."""
        return sum(parameter.coordinates for parameter in self.free)

    def validate(self, config: Mapping[str, Value]) -> Config:
        """Return `config` in the order of the parameters, with normalised values.

        Raises:
            SpaceError: If a parameter is missing, unknown, out of range, or differs from its fixed value.
        """
        self._check_names(config)
        checked = Config({name: parameter.check(config[name]) for name, parameter in self._by_name.items()})
        for name, value in self.fixed.items():
            if checked[name] != value:
                raise SpaceError(f"{name}={checked[name]!r} is not allowed; it is fixed to {value!r}")
        return checked

    def _check_names(self, config: Mapping[str, Value]) -> None:
        """Raise SpaceError if a parameter is missing or unknown."""
        missing = [name for name in self._by_name if name not in config]
        unknown = [str(name) for name in config if name not in self._by_name]
        faults = {"lacks": missing, "has unknown": unknown}
        if missing or unknown:
            said = " and ".join(f"{verb} [{', '.join(names)}]" for verb, names in faults.items() if names)
            raise SpaceError(f"the config {said}")

    def contains(self, config: Mapping[str, Value]) -> bool:
        """Return whether `validate` accepts `config`."""
        try:
            self.validate(config)
        except SpaceError:
            return False
        return True

    def encode(self, config: Mapping[str, Value]) -> "Vector":
        """Return the coordinates of a legal config, shape (dimension,), each in [0, 1]."""
        import numpy as np  # noqa: PLC0415  (slow to import, and commands need the parameters alone)

        return np.array(self._coordinates(config), dtype=float)

    def encode_all(self, configs: Sequence[Mapping[str, Value]]) -> "Vector":
        """Return the coordinates of legal configs, one row each, shape (n, dimension)."""
        import numpy as np  # noqa: PLC0415  (as above)

        rows = [self._coordinates(config) for config in configs]
        return np.array(rows, dtype=float).reshape(len(rows), self.dimension)

    def decode(self, vector: "Sequence[float] | Vector") -> Config:
        """Return the legal config nearest to `vector`, shape (dimension,); coordinates outside [0, 1] are clipped.

        Raises:
            SpaceError: If the vector has the wrong length or a coordinate that is not finite.
        """
        coordinates = [float(x) for x in vector]
        if len(coordinates) != self.dimension or not all(map(math.isfinite, coordinates)):
            raise SpaceError(f"{self.dimension} finite coordinates are needed; got {list(vector)!r}")
        values: dict[str, Value] = {}
        start = 0
        for parameter in self.free:
            end = start + parameter.coordinates
            values[parameter.name] = parameter.decode(coordinates[start:end])
            start = end
        return self._complete(values)

    def at_quantiles(self, quantiles: "Sequence[float] | Vector") -> Config:
        """Return the config at one quantile in [0, 1] per free parameter; uniform quantiles cover the space."""
        pairs = zip(self.free, quantiles, strict=True)
        return self._complete({parameter.name: parameter.at_quantile(float(quantile)) for parameter, quantile in pairs})

    def random(self, rng: "np.random.Generator") -> Config:
        """Return a random config, uniform over the quantiles."""
        return self.at_quantiles(rng.random(len(self.free)).tolist())

    def default(self) -> Config:
        """Return the config of built-in defaults and fixed values."""
        return self._complete({parameter.name: parameter.default for parameter in self.free})

    def to_json(self) -> dict[str, Any]:
        """Return the space's description, ready for `json.dumps`."""
        return {"parameters": [p.to_json() for p in self.parameters], "fixed": self.fixed.to_json()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "SearchSpace":
        """Rebuild a space from `to_json`.

        Raises:
            SpaceError: If the description is incomplete or contradicts itself.
        """
        try:
            return cls([parameter_from_json(item) for item in data["parameters"]], data["fixed"])
        except (KeyError, TypeError, AttributeError) as error:
            raise SpaceError("not a description of a search space: it needs 'parameters' and 'fixed'") from error

    def _coordinates(self, config: Mapping[str, Value]) -> list[float]:
        return [x for parameter in self.free for x in parameter.encode(config[parameter.name])]

    def _complete(self, free_values: Mapping[str, Value]) -> Config:
        values = {**self.fixed, **free_values}
        return Config({name: values[name] for name in self._by_name})
