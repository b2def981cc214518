# SPDX-License-Identifier: Apache-2.0
"""`GET /v1/events`: what changes, as it happens (server-sent events)."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Header
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from ringtune.service.api.access import needs
from ringtune.service.api.listeners import Listeners
from ringtune.service.api.parts import Parts, PartsDep, encoded
from ringtune.service.domain.values import Event
from ringtune.service.errors import Unavailable

MEDIA_TYPE = "text/event-stream"
POLL_S = 0.5
RETRY_MS = 3000
HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}

router = APIRouter(tags=["events"])


class _Listening(StreamingResponse):
    """A reply that takes a place among the listeners while it lasts."""

    media_type = MEDIA_TYPE

    def __init__(self, frames: AsyncIterator[bytes], listeners: Listeners) -> None:
        super().__init__(frames, headers=HEADERS)
        self._listeners = listeners

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._listeners.place():
            await super().__call__(scope, receive, send)


@router.get(
    "/v1/events",
    openapi_extra=needs("read"),
    response_class=StreamingResponse,
    responses={
        200: {"description": "Lasts until one side ends it.", "content": {MEDIA_TYPE: {"schema": {"type": "string"}}}}
    },
)
async def events(
    parts: PartsDep,
    last_event_id: Annotated[str | None, Header(pattern=r"^[0-9]{1,18}$", description="Go on after this one.")] = None,
) -> StreamingResponse:
    """Follow the results that are stored, from now on or from where an earlier connection ended.

    Between events there are comments as signs of life. The number of listeners is bounded.
    """
    after = await run_in_threadpool(parts.service.events.newest) if last_event_id is None else int(last_event_id)
    return _Listening(_follow(parts, after), parts.listeners)


async def _follow(parts: Parts, after: int) -> AsyncIterator[bytes]:
    """Yield frames until the client or the service goes; a database that is away is waited for."""
    quiet_s = 0.0
    yield f"retry: {RETRY_MS}\n\n".encode()
    while not parts.ending.is_set():
        try:
            found = await run_in_threadpool(parts.service.events.since, after)
        except Unavailable:
            found = ()
        for event in found:
            after = event.number
            yield _frame(event)
        quiet_s = 0.0 if found else quiet_s + POLL_S
        if quiet_s >= parts.settings.events_heartbeat_s:
            quiet_s = 0.0
            yield b": alive\n\n"
        if not found:
            await _rest(parts.ending)


async def _rest(ending: asyncio.Event) -> None:
    """Wait for the next look, or for the end."""
    try:
        await asyncio.wait_for(ending.wait(), POLL_S)
    except asyncio.TimeoutError:
        return


def _frame(event: Event) -> bytes:
    data = encoded(asdict(event))
    return b"id: %d\nevent: result\ndata: %s\n\n" % (event.number, data)
