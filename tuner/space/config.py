# SPDX-License-Identifier: Apache-2.0
"""A config: one chosen value for every parameter. Knows nothing of ranges (see `space`)."""

from collections.abc import Iterator, Mapping
from typing import TypeAlias

Value: TypeAlias = bool | int | float | str


class Config(Mapping[str, Value]):
    """An immutable, hashable mapping from parameter name to value; equal to any mapping with the same items."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Value]) -> None:
        """Copy `values`; later changes to them do not show here."""
        self._values: dict[str, Value] = dict(values)

    def __getitem__(self, name: str) -> Value:
        """Return the value of the parameter `name`; KeyError when it has none."""
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the parameter names in their order."""
        return iter(self._values)

    def __len__(self) -> int:
        """Return the number of parameters."""
        return len(self._values)

    def __hash__(self) -> int:
        """Return a hash that does not depend on the order of the names."""
        return hash(frozenset(self._values.items()))

    def __repr__(self) -> str:
        """Return the values as keyword arguments would read."""
        return f"Config({self})"

    def __str__(self) -> str:
        """Return `name=value` pairs, comma separated."""
        return ", ".join(f"{name}={value}" for name, value in self._values.items())

    def replace(self, values: Mapping[str, Value]) -> "Config":
        """Return a copy in which `values` replace, or add to, those here."""
        return Config({**self._values, **values})

    def to_json(self) -> dict[str, Value]:
        """Return a plain dictionary, ready for `json.dumps`."""
        return dict(self._values)
