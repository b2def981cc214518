# SPDX-License-Identifier: Apache-2.0
"""`GET /v1/events`: what changes, as it happens (server-sent events)."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Annotated

import structlog
from fastapi import APIRouter, Header, Query
from pydantic.json_schema import SkipJsonSchema
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from ringtune.service.api.access import Callers, needs
from ringtune.service.api.listeners import Listeners
from ringtune.service.api.parts import Parts, PartsDep, encoded
from ringtune.service.domain.values import Event
from ringtune.service.errors import Unauthenticated, Unavailable

MEDIA_TYPE = "text/event-stream"
POLL_S = 0.5
RETRY_MS = 3000
NUMBER = r"^[0-9]{1,18}$"
UNREAD_HEARTBEATS = 3
"""How long a client may read nothing."""
HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}

router = APIRouter(tags=["events"])


class _UnreadError(Exception):
    """The client has read nothing for too long."""


class _Listening(StreamingResponse):
    """A reply that takes a place among the listeners while it lasts, and ends when nobody reads it.

    What waits to be read is bounded: the server stops taking frames when its buffer is full.
    """

    media_type = MEDIA_TYPE

    def __init__(self, frames: AsyncIterator[bytes], listeners: Listeners, unread_s: float) -> None:
        super().__init__(frames, headers=HEADERS)
        self._listeners = listeners
        self._unread_s = unread_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_in_time(message: Message) -> None:
            try:
                await asyncio.wait_for(send(message), self._unread_s)
            except asyncio.TimeoutError:
                raise _UnreadError from None

        with self._listeners.place():
            try:
                await super().__call__(scope, receive, send_in_time)
            except _UnreadError:
                structlog.get_logger().info("listener_dropped", unread_s=self._unread_s)


@router.get(
    "/v1/events",
    openapi_extra=needs("read"),
    response_class=StreamingResponse,
    responses={
        200: {"description": "Lasts until one side ends it.", "content": {MEDIA_TYPE: {"schema": {"type": "string"}}}}
    },
)
async def events(
    request: Request,
    parts: PartsDep,
    last_event_id: Annotated[str | None, Header(pattern=NUMBER, description="Go on after this one.")] = None,
    after: Annotated[
        str | SkipJsonSchema[None], Query(pattern=NUMBER, description="The same, for who has not listened yet.")
    ] = None,
) -> StreamingResponse:
    """Follow the results that are stored, from now on or from where an earlier connection ended.

    Between events there are comments as signs of life. The number of listeners is bounded.
    """
    newest = await run_in_threadpool(parts.service.events.newest)
    known = last_event_id or after
    begin = newest if known is None else min(int(known), newest)  # a larger one is of another ledger
    unread_s = UNREAD_HEARTBEATS * parts.settings.events_heartbeat_s
    return _Listening(_follow(request, parts, begin), parts.listeners, unread_s)


async def _follow(request: Request, parts: Parts, after: int) -> AsyncIterator[bytes]:
    """Yield frames until the client, its token or the service goes; a database that is away is waited for.

    The first says where it begins, for a client that is cut off before any event.
    """
    quiet_s = 0.0
    yield f"retry: {RETRY_MS}\nid: {after}\n\n".encode()
    while not parts.ending.is_set() and await _may_listen(request):
        try:
            found = await run_in_threadpool(parts.service.events.since, after)
        except Unavailable:
            found = ()
        if found:
            after = found[-1].number
            yield b"".join(map(_frame, found))
        quiet_s = 0.0 if found else quiet_s + POLL_S
        if quiet_s >= parts.settings.events_heartbeat_s:
            quiet_s = 0.0
            yield b": alive\n\n"
        if not found:
            await _rest(parts.ending)


async def _may_listen(request: Request) -> bool:
    """Tell whether the caller is still known; while that cannot be told, it is."""
    callers: Callers = request.app.state.page_parts.callers
    try:
        await callers.find(dict(request.scope["headers"]))
    except Unauthenticated:
        return False
    except Unavailable:
        return True
    return True


async def _rest(ending: asyncio.Event) -> None:
    """Wait for the next look, or for the end."""
    try:
        await asyncio.wait_for(ending.wait(), POLL_S)
    except asyncio.TimeoutError:
        return


def _frame(event: Event) -> bytes:
    data = encoded(asdict(event))
    return b"id: %d\nevent: result\ndata: %s\n\n" % (event.number, data)
