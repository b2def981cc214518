# SPDX-License-Identifier: Apache-2.0
"""Dependencies of the routes, made once by `create_app` and handed to them by FastAPI."""

import asyncio
import gc
import json
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeAlias, TypeVar

from anyio import CapacityLimiter, to_thread
from fastapi import Depends
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from ringtune.service.domain.service import Service
from ringtune.service.settings import ServiceSettings

from .admission import Admission
from .listeners import Listeners
from .metrics import Metrics
from .recommendation_cache import RecommendationCache
from .refusals import UnsupportedMediaTypeError
from .request_ids import IdSource
from .strict_json import strict_value

Result = TypeVar("Result")
Responses: TypeAlias = dict[int | str, dict[str, Any]]
"""Further responses of a route, for OpenAPI."""
LOOKING_THREADS = 6
"""Fewer than the database has connections: whoever writes finds one."""
EXPORTS = 2
HEALTH_THREADS = 2
"""Threads for health alone, so that it is answered while all others are busy."""
READING_THREADS = 1
"""For bodies whose reading takes a while: it holds the interpreter's lock, so that more threads would not help."""
SMALL_BODY_BYTES = 16 << 10
"""Bodies up to this size are read at once: that takes less than a switch of threads."""


LARGE_BODY_BYTES = 1 << 20
"""Whole logs and imports above this size are worked on one at a time, for their memory; others do not wait for them."""


@dataclass(frozen=True)
class AppState:
    """The state of one application.

    Attributes:
        settings: Settings as they were read at the start.
        service: The domain.
        metrics: The counters.
        cache: Encoded recommendations.
        listeners: Clients of the events.
        admission: The places for requests at work.
        exports: The places for exports on their way: they are fewer than the database has connections.
        ids: The requests' names.
        ending: Set when the process is asked to end: replies that last end then.
        health_threads: Bounds the threads of health checks.
        reading_threads: Bounds the threads that read large bodies.
        bulk_threads: Bounds the threads that work on large logs and imports.
        looking: The threads that look for recommendations: of their own, so that they wait for no commit.
        study_path: Returns the path of a study's page; None where there are no pages.
    """

    settings: ServiceSettings
    service: Service
    metrics: Metrics
    cache: RecommendationCache
    listeners: Listeners
    admission: Admission
    exports: Admission = field(default_factory=lambda: Admission(EXPORTS, what="exports"))
    ids: IdSource = field(default_factory=IdSource)
    ending: asyncio.Event = field(default_factory=asyncio.Event)
    health_threads: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(HEALTH_THREADS))
    reading_threads: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(READING_THREADS))
    bulk_threads: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(1))
    looking: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(LOOKING_THREADS, "ringtune-look"))
    study_path: Callable[[str], str] | None = None

    async def work_on(self, body: bytes, work: Callable[[], Result]) -> Result:
        """Do the work that a log or an import asks for, in a thread; see `LARGE_BODY_BYTES` for large bodies.

        Args:
            body: The log or import.
            work: Reads and stores it.
        """
        if len(body) <= LARGE_BODY_BYTES:
            return await to_thread.run_sync(work)
        return await to_thread.run_sync(without_collections, work, limiter=self.bulk_threads)


def without_collections(work: Callable[[], Result]) -> Result:
    """Do work while the garbage collector is off, and return its result.

    A collection stops every thread: 50 to 100 ms beside the objects of a large log, which are no garbage.
    """
    gc.disable()
    try:
        return work()
    finally:
        gc.enable()


async def state_of(request: Request) -> AppState:
    """Return the application's state."""
    state: AppState = request.app.state.service_state
    return state


async def _service_of(request: Request) -> Service:
    return (await state_of(request)).service


async def _metrics_of(request: Request) -> Metrics:
    return (await state_of(request)).metrics


StateDep = Annotated[AppState, Depends(state_of)]
ServiceDep = Annotated[Service, Depends(_service_of)]
MetricsDep = Annotated[Metrics, Depends(_metrics_of)]


class _StrictRequest(Request):
    """A request whose JSON is read strictly, and a large one in a thread: others are answered meanwhile."""

    async def json(self) -> Any:
        """Return the body's value.

        Raises:
            UnreadableBodyError: If it is no JSON.
        """
        body = await self.body()
        if len(body) <= SMALL_BODY_BYTES:
            return strict_value(body)
        state = await state_of(self)
        return await to_thread.run_sync(strict_value, body, limiter=state.reading_threads)


JSON_TYPE = "application/json"


def require_json(request: Request) -> None:
    """Raise UnsupportedMediaTypeError unless the request's body is declared as JSON."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != JSON_TYPE:
        given = f"of the type {media_type[:100]!r}" if media_type else "of no type"
        raise UnsupportedMediaTypeError(f"the body is {given}; send JSON with the header Content-Type: {JSON_TYPE}")


class JsonRoute(APIRoute):
    """A route that reads its body strictly."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the framework's handler, with a strict request."""
        handle = super().get_route_handler()

        async def handle_strictly(request: Request) -> Response:
            strict = _StrictRequest(request.scope, request.receive)
            if self.body_field is not None and await strict.body():
                require_json(strict)
            return await handle(strict)

        return handle_strictly


def encoded(value: Any) -> bytes:
    """Return compact JSON of plain values."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()
