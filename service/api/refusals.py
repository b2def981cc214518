# SPDX-License-Identifier: Apache-2.0
"""Refusals by HTTP itself, before the domain is asked."""

from ringtune.service.errors import NotFound, ServiceError


class RouteNotFound(NotFound):
    """The path leads nowhere."""

    code, title = "route_not_found", "There is no such call"


class MethodNotAllowedError(ServiceError):
    """The path is known, the method is not."""

    code, status, title = "method_not_allowed", 405, "The method is not allowed here"


class MalformedRequestError(ServiceError):
    """A field is not as the OpenAPI description says."""

    code, status, title = "malformed_request", 422, "The request is not as described"


class UnreadableBodyError(ServiceError):
    """The body is no JSON."""

    code, status, title = "unreadable_body", 400, "The body cannot be read"


class HeadRefusedError(ServiceError):
    """The request's head is too large; the connection is closed."""

    code, status, title = "head_too_large", 431, "The request's head is too large"


class BodyTimeoutError(ServiceError):
    """The body did not come in time."""

    code, status, title = "body_timeout", 408, "The body came too slowly"


class UnsupportedMediaTypeError(ServiceError):
    """The body is compressed, or of another type."""

    code, status, title = "unsupported_media_type", 415, "The body is of a kind that is not read here"


class InternalError(ServiceError):
    """A bug of the service; the log has it under the request's id."""
