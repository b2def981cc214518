# SPDX-License-Identifier: Apache-2.0
"""Plain data to JSON and back, exactly: types survive, floats to the last bit, and data is never executed.

| Python | JSON |
|---|---|
| None, bool, int, str | itself |
| float | `{"float": hexadecimal}`; infinities and NaN too |
| list | array |
| tuple | `{"tuple": array}` |
| dict | `{"dict": [[key, value], ...]}`; keys are encoded like values |
| other objects of `plain_classes` | `{"form": name, "detail": JSON, "parts": array}` |
| array or tensor | `{"leaf": number, "kind": name, "dtype": name, "shape": array}`; its values travel apart |

The caller decides which values are leaves: this module knows no framework, and no numpy.
"""

import json
from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple

from ringtune.errors import ConfigError
from ringtune.system.plain_classes import Parts, named, put_together, take_apart

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
"""Returns the array, tensor or number of a leaf."""


def encode(value: Any, find_leaf: FindLeaf, private_modules: Collection[str] = ()) -> tuple[bytes, list[Any]]:
    """Return JSON for plain data, and the leaves in it in the order of their numbers.

    Args:
        value: The data.
        find_leaf: Describes arrays and tensors.
        private_modules: Modules whose classes the receiver does not have.

    Raises:
        ConfigError: If the data holds anything that the table above does not.
    """
    leaves: list[Any] = []
    return json.dumps(
        _Encoder(find_leaf, leaves, private_modules).to_json(value, MAX_DEPTH), separators=(",", ":")
    ).encode(), leaves


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
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise ConfigError(f"the encoded data cannot be read: {error!r}; use one version of ringtune") from error


class _Encoder:
    """Collects the leaves of one value."""

    def __init__(self, find_leaf: FindLeaf, leaves: list[Any], private_modules: Collection[str]) -> None:
        self._find_leaf = find_leaf
        self._leaves = leaves
        self._private_modules = private_modules

    def to_json(self, value: Any, depth: int) -> Any:
        if depth == 0:
            raise ConfigError(f"data nested more than {MAX_DEPTH} deep cannot be sent to other ranks")

        def inner(items: Iterable[Any]) -> list[Any]:
            return [self.to_json(item, depth - 1) for item in items]

        if value is None or type(value) in {bool, int, str}:
            return value
        if type(value) is float:
            return {"float": value.hex()}
        if type(value) is list:
            return inner(value)
        if type(value) is tuple:
            return {"tuple": inner(value)}
        if type(value) is dict:
            return {"dict": [inner(pair) for pair in value.items()]}
        leaf = self._find_leaf(value)
        if leaf is None:
            parts = self._parts_of(value)
            return {"form": parts.form, "detail": parts.detail, "parts": inner(parts.children)}
        self._leaves.append(value)
        return {"leaf": len(self._leaves) - 1, "kind": leaf.kind, "dtype": leaf.dtype, "shape": list(leaf.shape)}

    def _parts_of(self, value: Any) -> Parts:
        parts = take_apart(value)
        if parts is None:
            raise ConfigError(
                f"{named(type(value))} cannot be sent to other ranks; plain data can: None, bool, int, float, complex, "
                "str, bytes, lists, tuples, dicts, sets and other containers of the standard library, paths, enums, "
                "dataclasses, argparse.Namespace, and arrays or tensors of numbers"
            )
        if parts.has_class and type(value).__module__ in self._private_modules:
            raise ConfigError(
                f"{named(type(value))} cannot be sent to other ranks, for its class is the program's own; define it in "
                "a module that the function imports"
            )
        return parts


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
    if "form" in value:
        return put_together(Parts(value["form"], value["detail"], inner(value["parts"])))
    shape = tuple(int(size) for size in value["shape"])
    return make_leaf(int(value["leaf"]), Leaf(str(value["kind"]), str(value["dtype"]), shape))
