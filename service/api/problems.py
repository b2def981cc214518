# SPDX-License-Identifier: Apache-2.0
"""Every error as `application/problem+json` (RFC 9457) with a stable code, whoever raised it."""

import json
import math
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ringtune.service.errors import ServiceError

from .refusals import MalformedRequestError, MethodNotAllowedError, RouteNotFound, UnreadableBodyError
from .request_ids import request_id_of

MEDIA_TYPE = "application/problem+json"
MAX_FIELD_ERRORS = 20
MAX_DETAIL = 2000
OTHER_AGES: Mapping[str, str] = {"extra_forbidden": "newer", "missing": "older"}
"""Age of the client's version, by the kind of a field's error: unknown here, or missing."""
BY_STATUS: Mapping[int, tuple[type[ServiceError], str]] = {
    400: (UnreadableBodyError, "the body cannot be read; send UTF-8 JSON"),
    404: (RouteNotFound, "{method} {path} leads nowhere; /openapi.json lists the calls"),
    405: (MethodNotAllowedError, "{path} does not know {method}; /openapi.json lists the calls"),
}


def problem_response(
    error: ServiceError,
    request_id: str,
    *,
    fields: Sequence[Mapping[str, str]] = (),
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return the reply for an error, with `Retry-After` (whole seconds) where it has one."""
    problem = {
        "type": "about:blank",
        "title": error.title,
        "status": error.status,
        "code": error.code,
        "detail": error.detail[:MAX_DETAIL],
        "request_id": request_id,
        "errors": list(fields),
    }
    known = dict(headers or {})
    if error.retry_after_s is not None:
        known["retry-after"] = str(max(1, math.ceil(error.retry_after_s)))
    if error.status == 401:
        known["www-authenticate"] = 'Bearer realm="ringtune"'
    body = json.dumps(problem).encode()  # ASCII: a lone surrogate out of a request cannot break the reply
    return Response(body, error.status, known, media_type=MEDIA_TYPE)


async def send_problem(error: ServiceError, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with an error from a middleware; the rest of the request's body is not read."""
    headers = {"connection": "close"} if error.status in {408, 413} else None
    await problem_response(error, request_id_of(scope), headers=headers)(scope, receive, send)


def install_handlers(app: FastAPI) -> None:
    """Make the application answer every error as a problem."""
    app.add_exception_handler(ServiceError, _service_error)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(HTTPException, _http_error)


async def _service_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, ServiceError)
    return problem_response(error, request_id_of(request.scope))


async def _validation_error(request: Request, error: Exception) -> Response:
    """Name the fields; their values are not repeated, for they may be large or secret."""
    assert isinstance(error, RequestValidationError)
    found = _without_alternatives(error.errors())
    fields = [
        {"location": ".".join(str(part) for part in item["loc"])[:200], "message": str(item["msg"])[:500]}
        for item in found[:MAX_FIELD_ERRORS]
    ]
    first = fields[0] if fields else {"location": "request", "message": "not valid"}
    counted = "1 field is" if len(found) == 1 else f"{len(found)} fields are"
    detail = f"{counted} not as /openapi.json says; the first: {first['location']}: {first['message']}"
    ages = {OTHER_AGES[item["type"]] for item in found if item["type"] in OTHER_AGES}
    if ages:
        detail += f"; this service is ringtune {version('ringtune')}: is the client {' or '.join(sorted(ages))}?"
    return problem_response(MalformedRequestError(detail), request_id_of(request.scope), fields=fields)


def _without_alternatives(errors: Sequence[Any]) -> list[Any]:
    """Return one error per value of an optional field: Pydantic has two, and names the alternative in the location.

    Args:
        errors: Pydantic's own errors.
    """
    optional = {tuple(item["loc"][:-1]) for item in errors if item["type"] == "none_required"}
    return [
        {**item, "loc": item["loc"][:-1]} if tuple(item["loc"][:-1]) in optional else item
        for item in errors
        if item["type"] != "none_required"
    ]


async def _http_error(request: Request, error: Exception) -> Response:
    """Answer the framework's refusals: unknown routes and methods, bodies that are no JSON.

    The framework wraps errors of our own that are raised while it reads a body; their words are more exact.
    """
    assert isinstance(error, HTTPException)
    if isinstance(error.__cause__, ServiceError):
        return problem_response(error.__cause__, request_id_of(request.scope))
    kind, words = BY_STATUS.get(error.status_code, (UnreadableBodyError, str(error.detail)))
    detail = words.format(method=request.method, path=request.url.path[:200])
    return problem_response(kind(detail), request_id_of(request.scope), headers=error.headers)
