# SPDX-License-Identifier: Apache-2.0
"""MkDocs hook: the references of the REST interface and of its metrics, made from the application.

The interface's text is its OpenAPI description, as `GET /openapi.json` answers it; the metrics are those it registers.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from prometheus_client.parser import text_string_to_metric_families

from ringtune.service.app import create_app
from ringtune.service.settings import ServiceSettings

Json = Mapping[str, Any]
METHODS = ("get", "post", "put", "delete")


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages; the database that the application wants is a file that is thrown away."""
    with TemporaryDirectory() as folder:
        app = create_app(ServiceSettings.read(database_url=f"sqlite:///{Path(folder) / 'service.db'}"))
        description, metrics = app.openapi(), app.state.service_state.metrics.text().decode()
    files.append(File.generated(config, "reference/rest.md", content="\n".join(_rest(description))))
    files.append(File.generated(config, "reference/metrics.md", content="\n".join(_metrics(metrics))))
    return files


def _rest(description: Json) -> Iterator[str]:
    yield f"# The REST interface\n\n{description['info']['description']}\n"
    yield "Generated from the description that `GET /openapi.json` answers; it has the details of every field.\n"
    for path, operations in description["paths"].items():
        for method in METHODS:
            if method in operations:
                yield from _operation(method, path, operations[method])
    yield "\n## Schemas\n"
    for name, schema in sorted(description["components"]["schemas"].items()):
        yield from _schema(name, schema)


def _operation(method: str, path: str, operation: Json) -> Iterator[str]:
    yield f"\n## `{method.upper()} {path}`\n"
    yield str(operation.get("description", operation.get("summary", "")))
    if operation.get("parameters"):
        yield "\n| parameter | in | type | meaning |\n|---|---|---|---|"
        for parameter in operation["parameters"]:
            words = _cell(parameter.get("description", parameter["schema"].get("description", "")))
            need = ", required" if parameter.get("required") else ""
            yield f"| `{parameter['name']}` | {parameter['in']}{need} | {_type(parameter['schema'])} | {words} |"
    for content_type, content in operation.get("requestBody", {}).get("content", {}).items():
        yield f"\nBody, `{content_type}`: {_type(content.get('schema', {}))}"
    yield "\n| status | answer | body |\n|---|---|---|"
    for status, answer in sorted(operation["responses"].items()):
        bodies = [_type(content.get("schema", {})) for content in answer.get("content", {}).values()]
        yield f"| {status} | {_cell(answer['description'])} | {', '.join(filter(None, bodies))} |"


def _schema(name: str, schema: Json) -> Iterator[str]:
    yield f"\n### {name}\n"
    yield str(schema.get("description", ""))
    if "properties" in schema:
        yield "\n| field | type | meaning |\n|---|---|---|"
        required = schema.get("required", ())
        for field, value in schema["properties"].items():
            need = "" if field in required else ", optional"
            yield f"| `{field}` | {_type(value)}{need} | {_cell(value.get('description', ''))} |"
    for example in schema.get("examples", [])[:1]:
        yield f"\n```json\n{json.dumps(example, indent=2)}\n```"


def _type(schema: Json) -> str:
    """Return a schema's type in a few words, with a link where it is one of ours."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_type(item) for item in schema["anyOf"])
    if schema.get("type") == "array":
        return f"array of {_type(schema.get('items', {})) or 'anything'}"
    if "enum" in schema or "const" in schema:
        return ", ".join(f"`{value}`" for value in schema.get("enum", [schema.get("const")]))
    return str(schema.get("format", schema.get("type", "")))


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _metrics(text: str) -> Iterator[str]:
    yield "# Metrics of the service\n\nGenerated from what `GET /metrics` answers when a service has just started.\n"
    yield "| metric | kind | what |\n|---|---|---|"
    for family in text_string_to_metric_families(text):
        suffix = "_total" if family.type == "counter" else ""
        if not family.name.endswith("_created"):
            yield f"| `{family.name}{suffix}` | {family.type} | {_cell(family.documentation)} |"
