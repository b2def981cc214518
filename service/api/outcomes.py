# SPDX-License-Identifier: Apache-2.0
"""Outcomes of requests: each is counted and timed, and a bug becomes a reply."""

import time
from collections.abc import Callable
from typing import Any

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ringtune.service.errors import ServiceError

from .metrics import ROUTE_KEY, UNKNOWN_ROUTE, Metrics
from .problems import send_problem
from .refusals import InternalError
from .request_ids import request_id_of


class Outcomes:
    """ASGI middleware: counts replies by their route's template, never by a path that a client made up.

    The reply to a bug says that it is one, and no more; the log has the rest.
    """

    def __init__(self, app: ASGIApp, *, metrics: Metrics, clock: Callable[[], float] = time.perf_counter) -> None:
        """Wrap `app`."""
        self._app = app
        self._metrics = metrics
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; answer 500 if that raises before a reply was begun, else break the connection off."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun_s = self._clock()
        status: int | None = None

        async def watching(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        self._metrics.at_work.inc()
        try:
            await self._app(scope, receive, watching)
        except Exception as error:
            log: Any = structlog.get_logger()
            log.exception("request_failed", request_id=request_id_of(scope), method=scope["method"], path=scope["path"])
            if status is not None:
                raise
            await send_problem(_problem_of(error, scope), scope, receive, watching)
        finally:
            self._metrics.at_work.dec()
            route = str(scope.get(ROUTE_KEY) or getattr(scope.get("route"), "path", UNKNOWN_ROUTE))
            self._metrics.answered(scope["method"], route, status or 500, self._clock() - begun_s)


def _problem_of(error: Exception, scope: Scope) -> ServiceError:
    if isinstance(error, ServiceError):
        return error
    return InternalError(f"this is a bug of the service; its log says more under {request_id_of(scope)}")
