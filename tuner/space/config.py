# SPDX-License-Identifier: Apache-2.0
"""A config: one chosen value for every parameter. `search_space` knows the allowed ranges."""

from collections.abc import Iterator, Mapping
from typing import TypeAlias

Value: TypeAlias = bool | int | float | str
"""Value of a parameter."""


class Config(Mapping[str, Value]):
    """An immutable, hashable mapping from parameter name to value; equal to any mapping with the same items."""

    __slots__ = ("_hash", "_values")

    def __init__(self, values: Mapping[str, Value]) -> None:
        """Copy `values`; later changes to the mapping have no effect on the config."""
        self._values: dict[str, Value] = dict(values)
        self._hash: int | None = None

    def __getitem__(self, name: str) -> Value:
        """Return the value of the parameter `name`; KeyError if there is none."""
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the parameter names in their order."""
        return iter(self._values)

    def __len__(self) -> int:
        """Return the number of parameters."""
        return len(self._values)

    def __hash__(self) -> int:
        """Return a hash that does not depend on the order of the names."""
        if self._hash is None:
            self._hash = hash(frozenset(self._values.items()))
        return self._hash

    def __repr__(self) -> str:
        """Return `Config(name=value, ...)`."""
        return f"Config({self})"

    def __str__(self) -> str:
        """Return comma-separated `name=value` pairs."""
        return ", ".join(f"{name}={value}" for name, value in self._values.items())

    def replace(self, values: Mapping[str, Value]) -> "Config":
        """Return a copy with `values` replaced or added."""
        return Config({**self._values, **values})

    def to_json(self) -> dict[str, Value]:
        """Return a plain dictionary, ready for `json.dumps`."""
        return dict(self._values)
