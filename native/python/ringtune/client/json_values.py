# SPDX-License-Identifier: Apache-2.0
"""Replies as dataclasses: a field's annotation is its schema, fields that are not known are ignored."""

import math
import types
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from .errors import ServiceReplyError

T = TypeVar("T")
MAX_INTEGER = 2**63


def from_json(kind: type[T], data: object) -> T:
    """Return the dataclass that a JSON value describes.

    Args:
        kind: A dataclass whose fields are text, numbers, switches, None, mappings, tuples, and such dataclasses.
        data: Data from `json.loads`.

    Raises:
        ServiceReplyError: If a field is missing or has another type; the message names it.
    """
    try:
        value: T = _read(kind, data, kind.__name__)
    except _UnreadableError as error:
        raise ServiceReplyError(f"the service's reply cannot be used: {error}; is it of another version?") from error
    return value


class _UnreadableError(Exception):
    """A value is not of the kind that is needed; the message says which."""


def _read(kind: Any, value: object, place: str) -> Any:
    """Return a value as `kind`; `place` names it in messages."""
    if is_dataclass(kind):
        return _dataclass(kind, value, place)
    if get_origin(kind) in (Union, types.UnionType):
        return _one_of(get_args(kind), value, place)
    if get_origin(kind) in (tuple, Mapping):
        return _many(kind, value, place)
    if kind is Any or _is_scalar(value, kind):
        return value
    raise _UnreadableError(f"{place}={str(value)[:40]!r}")


def _many(kind: Any, value: object, place: str) -> Any:
    """Return a list as a tuple, or an object as a mapping."""
    arguments = get_args(kind)
    if get_origin(kind) is tuple and isinstance(value, list):
        return tuple(_read(arguments[0], item, f"{place}[{number}]") for number, item in enumerate(value))
    if get_origin(kind) is Mapping and isinstance(value, dict):
        return {name: _read(arguments[1], item, f"{place}.{name}") for name, item in value.items()}
    raise _UnreadableError(f"{place}={str(value)[:40]!r}")


def _dataclass(kind: Any, value: object, place: str) -> Any:
    if not isinstance(value, dict):
        raise _UnreadableError(f"{place} is no object")
    hints = get_type_hints(kind)
    found = {}
    for field in fields(kind):
        if field.name in value:
            found[field.name] = _read(hints[field.name], value[field.name], f"{place}.{field.name}")
        elif not _has_default(field):
            raise _UnreadableError(f"{place} has no {field.name}")
    return kind(**found)


def _one_of(kinds: tuple[Any, ...], value: object, place: str) -> Any:
    if value is None and types.NoneType in kinds:
        return None
    chosen = [kind for kind in kinds if kind is not types.NoneType]
    fitting = [kind for kind in chosen if _is_scalar(value, kind)]
    return _read((fitting or chosen)[0], value, place)


def _has_default(field: Field[Any]) -> bool:
    return field.default is not MISSING or field.default_factory is not MISSING


def _is_scalar(value: object, kind: Any) -> bool:
    """Tell whether a value has a plain type; an int serves as a float, a bool as neither, a huge int as nothing."""
    if isinstance(value, bool) or kind is bool:
        return isinstance(value, bool) and kind is bool
    if isinstance(value, int) and abs(value) > MAX_INTEGER:
        return False
    if kind is float:
        return isinstance(value, (int, float)) and math.isfinite(value)
    return kind in {int, str} and isinstance(value, kind)
