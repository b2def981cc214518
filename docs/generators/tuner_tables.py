# SPDX-License-Identifier: Apache-2.0
"""MkDocs hook: the engine's parameters and the records of the tuning log, made from the tables in the code."""

from collections.abc import Iterator, Mapping
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from ringtune._engine import allreduce_algorithms
from ringtune.tuner.logs.schema import json_schema
from ringtune.tuner.space.parameter_types import NumberParameter, Parameter
from ringtune.tuner.space.parameters import engine_parameters
from ringtune.tuner.space.readable import readable_value


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages."""
    files.append(File.generated(config, "reference/parameters.md", content="\n".join(_parameters())))
    files.append(File.generated(config, "reference/tuning_log.md", content="\n".join(_records())))
    return files


def _parameters() -> Iterator[str]:
    yield "# Parameters of the engine\n\nGenerated from the table that settings and tuner read,"
    yield "`tuner/space/parameters.py`."
    yield "What each does, and the variable that fixes it: [Environment variables](environment.md#the-knobs).\n"
    yield "| name | values | scale | default | coordinates |\n|---|---|---|---|---|"
    for parameter in engine_parameters(allreduce_algorithms()):
        scale = parameter.scale if isinstance(parameter, NumberParameter) else ""
        default = readable_value(parameter.name, parameter.default)
        yield f"| `{parameter.name}` | {_values(parameter)} | {scale} | {default} | {parameter.coordinates} |"
    yield "\n*Coordinates*: how many numbers encode it ([the mathematics](../mathematics.md#configs-as-vectors))."


def _values(parameter: Parameter) -> str:
    if not isinstance(parameter, NumberParameter):
        return parameter.allowed
    special = [readable_value(parameter.name, value) for value in parameter.special]
    low, high = (readable_value(parameter.name, parameter.nearest(end)) for end in (parameter.low, parameter.high))
    return ", or ".join([*special, f"{low} to {high}"])


def _records() -> Iterator[str]:
    yield "# Records of the tuning log\n\nGenerated from its JSON Schema (`ringtune.tuner.logs.schema.json_schema`)."
    yield "A log is JSON Lines: one record per line, appended, written by rank 0."
    for record in json_schema()["oneOf"]:
        yield f"\n## `{record['title']}`\n\n| field | type |\n|---|---|"
        yield from (f"| `{name}` | {_type(schema)} |" for name, schema in record["properties"].items())


def _type(schema: Mapping[str, Any]) -> str:
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    fields = ", ".join(f"`{name}`" for name in schema.get("properties", {}))
    return " or ".join(kinds) + (f" of {fields}" if fields else "")
