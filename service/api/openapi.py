# SPDX-License-Identifier: Apache-2.0
"""The OpenAPI description: FastAPI's, derived from the routes, and the middleware's addition to every one of them."""

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode

from ringtune.shared_service.rest_models import Problem, TuningLog

from .access import OPEN_PATHS
from .problems import MEDIA_TYPE

SCHEMAS = "#/components/schemas/"
REFERENCE = {"$ref": f"{SCHEMAS}Problem"}
CONTENT: Mapping[str, Any] = {MEDIA_TYPE: {"schema": REFERENCE}}
EVERYWHERE: Mapping[str, str] = {
    "401": "There is no valid token.",
    "403": "The token lacks the scope.",
    "421": "Without tokens: the Host or Origin header does not name loopback.",
    "422": "A field is not as described here, or the values make no sense together.",
    "429": "Too many requests with this token; `Retry-After` says when.",
    "503": "Overloaded, or the database does not answer; `Retry-After` says when. Every call may be repeated as it is.",
}
WITH_BODY: Mapping[str, str] = {
    "400": "The body is not JSON.",
    "408": "The body came too slowly.",
    "413": "The body is too large.",
    "415": "The body is compressed, or of another type.",
}
WITHOUT_TOKEN = frozenset({"401", "403", "421", "429"})
RETRY_AFTER = {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer", "minimum": 1}}}


def describe(app: FastAPI) -> dict[str, Any]:
    """Return the description of all routes, with the problems that each may answer and the token that it needs."""
    document = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    _add_schema(schemas, Problem, "serialization")
    _add_schema(schemas, TuningLog, "validation")
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    for path, methods in document["paths"].items():
        for operation in methods.values():
            _add_problems(operation, is_open=path in OPEN_PATHS)
    return document


def _add_schema(schemas: dict[str, Any], model: type[BaseModel], mode: JsonSchemaMode) -> None:
    """Add a model that no route declares: the middleware answers it, or the route reads it piece by piece."""
    schema = model.model_json_schema(ref_template=f"{SCHEMAS}{{model}}", mode=mode)
    schemas.update(schema.pop("$defs", {}))
    schemas[model.__name__] = schema


def _add_problems(operation: dict[str, Any], *, is_open: bool) -> None:
    responses = operation["responses"]
    added = {**EVERYWHERE, **(WITH_BODY if "requestBody" in operation else {})}
    if is_open:
        added = {status: words for status, words in added.items() if status not in WITHOUT_TOKEN}
    responses.update({status: {"description": words} for status, words in added.items()})
    for status, response in responses.items():
        if status.isdigit() and int(status) >= 400:
            response["content"] = dict(CONTENT)
    for status in {"429", "503"} & set(responses):
        responses[status]["headers"] = RETRY_AFTER
