# SPDX-License-Identifier: Apache-2.0
"""JSON Schema of the tuning log, derived from the records so that there is a single definition."""

import types
from typing import Any, Union, get_args, get_origin, get_type_hints

from .records import ENUMS, OLD_CI_LEVEL, RECORD_TYPES, STEP_MS_KEYS, Json, required_fields

TYPE_NAMES = {str: "string", bool: "boolean", int: "integer", float: "number", types.NoneType: "null"}


def json_schema() -> Json:
    """Return the JSON Schema (draft 2020-12) of one line of the log."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A record of ringtune's tuning log, schema 1",
        "oneOf": [_record_schema(name, kind) for name, kind in RECORD_TYPES.items()],
    }


def _record_schema(name: str, kind: type) -> Json:
    hints = get_type_hints(kind)
    properties: Json = {"type": {"const": name}}
    for field, hint in hints.items():
        properties[field] = _type_schema(hint)
        if field in ENUMS:
            properties[field]["enum"] = [*sorted(ENUMS[field]), *([None] if types.NoneType in get_args(hint) else [])]
    if "step_ms" in properties:
        properties["step_ms"] = {
            "type": "object",
            "properties": {key: _type_schema(float | None) for key in STEP_MS_KEYS},
            "required": list(STEP_MS_KEYS),
        }
    if "ci_level" in properties:
        properties["ci_level"] |= {"exclusiveMinimum": 0, "exclusiveMaximum": 1, "default": OLD_CI_LEVEL}
    return {"type": "object", "title": name, "properties": properties, "required": ["type", *required_fields(name)]}


def _type_schema(hint: Any) -> Json:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        kinds = [_type_schema(argument) for argument in arguments]
        values = {key: value for kind in kinds for key, value in kind.items() if key != "type"}
        return {"type": [kind["type"] for kind in kinds], **values}
    if origin is dict:
        values = {} if arguments[1] is Any else {"additionalProperties": _type_schema(arguments[1])}
        return {"type": "object", **values}
    if origin is list:
        return {"type": "array", "items": _type_schema(arguments[0])}
    return {"type": TYPE_NAMES[hint]}
