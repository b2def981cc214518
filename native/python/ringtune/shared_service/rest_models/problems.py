# SPDX-License-Identifier: Apache-2.0
"""Errors as problem details (RFC 9457)."""

from typing import Annotated

from pydantic import Field

from .fields import Text, WireModel


class FieldError(WireModel):
    """Fault in one field of the request."""

    location: Annotated[str, Field(examples=["body.results.3.steps"])]
    message: str


class Problem(WireModel):
    """Error: the fault, with its values, and a remedy."""

    type: Annotated[str, Field(examples=["about:blank"])]
    title: str
    status: Annotated[int, Field(ge=400, le=599)]
    code: Annotated[str, Field(description="Stable: programs go by it.", examples=["study_not_found"])]
    detail: Text
    request_id: Annotated[str, Field(description="Id in the service's log and the reply's X-Request-ID.")]
    errors: Annotated[list[FieldError], Field(default_factory=list)]
