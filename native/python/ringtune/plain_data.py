# SPDX-License-Identifier: Apache-2.0
"""Plain data to JSON and back, exactly: types survive, floats to the last bit, and nothing is ever executed.

| Python | JSON |
|---|---|
| None, bool, int, str | itself |
| float | `{"float": hexadecimal}`; infinities and NaN too |
| list | array |
| tuple | `{"tuple": array}` |
| dict | `{"dict": [[key, value], ...]}`; keys are encoded like values |
| array or tensor | `{"leaf": number, "kind": name, "dtype": name, "shape": array}`; its values travel apart |

What a leaf is, the caller says: this module knows no framework, and no numpy.
"""

import json
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from .errors import ConfigError

MAX_DEPTH = 64


class Leaf(NamedTuple):
    """Description of an array or tensor in the text.

    Attributes:
        kind: Kind of object to rebuild on the other side, in the caller's words.
        dtype: Name of its elements' type.
        shape: Its shape.
    """

    kind: str
    dtype: str
    shape: tuple[int, ...]


FindLeaf = Callable[[Any], Leaf | None]
"""Describes a value if it is a leaf; raises `ConfigError` for one that cannot be sent."""
MakeLeaf = Callable[[int, Leaf], Any]
"""Returns what stands for the leaf of a number."""


def encode(value: Any, find_leaf: FindLeaf) -> tuple[bytes, list[Any]]:
    """Return JSON for plain data, and the leaves in it in the order of their numbers.

    Raises:
        ConfigError: If the data holds anything that the table above does not.
    """
    leaves: list[Any] = []
    return json.dumps(_Encoder(find_leaf, leaves).to_json(value, MAX_DEPTH), separators=(",", ":")).encode(), leaves


def decode(text: bytes, make_leaf: MakeLeaf) -> Any:
    """Return the data that `encode` was given.

    Args:
        text: Result of `encode`.
        make_leaf: Called for each leaf, in the order of the numbers.

    Raises:
        ConfigError: If the text is not from `encode`.
    """
    try:
        return _from_json(json.loads(text), make_leaf)
    except ConfigError:  # of `make_leaf`, which says what is wrong with the leaf
        raise
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ConfigError(f"the encoded data cannot be read: {error!r}; use one version of ringtune") from error


class _Encoder:
    """Collects the leaves of one value."""

    def __init__(self, find_leaf: FindLeaf, leaves: list[Any]) -> None:
        self._find_leaf = find_leaf
        self._leaves = leaves

    def to_json(self, value: Any, depth: int) -> Any:
        if depth == 0:
            raise ConfigError(f"data nested more than {MAX_DEPTH} deep cannot be sent to other ranks")

        def inner(items: Iterable[Any]) -> list[Any]:
            return [self.to_json(item, depth - 1) for item in items]

        if value is None or type(value) in {bool, int, str}:
            return value
        if type(value) is float:
            return {"float": value.hex()}
        if isinstance(value, (list, tuple)):
            return {"tuple": inner(value)} if isinstance(value, tuple) else inner(value)
        if isinstance(value, dict):
            return {"dict": [inner(pair) for pair in value.items()]}
        return self._leaf_to_json(value)

    def _leaf_to_json(self, value: Any) -> Any:
        leaf = self._find_leaf(value)
        if leaf is None:
            raise ConfigError(
                f"a {type(value).__module__}.{type(value).__qualname__} cannot be sent to other ranks; plain data can: "
                "None, bool, int, float, str, list, tuple, dict, and arrays or tensors of numbers"
            )
        self._leaves.append(value)
        return {"leaf": len(self._leaves) - 1, "kind": leaf.kind, "dtype": leaf.dtype, "shape": list(leaf.shape)}


def _from_json(value: Any, make_leaf: MakeLeaf) -> Any:
    def inner(items: Iterable[Any]) -> list[Any]:
        return [_from_json(item, make_leaf) for item in items]

    if isinstance(value, list):
        return inner(value)
    if not isinstance(value, dict):
        return value
    if "float" in value:
        return float.fromhex(value["float"])
    if "tuple" in value:
        return tuple(inner(value["tuple"]))
    if "dict" in value:
        return {key: item for key, item in map(inner, value["dict"])}  # noqa: C416  (dict() takes "ab" for a pair)
    shape = tuple(int(size) for size in value["shape"])
    return make_leaf(int(value["leaf"]), Leaf(str(value["kind"]), str(value["dtype"]), shape))
