# SPDX-License-Identifier: Apache-2.0
"""Server-sent events: stored results as they come, for programs and for pages alike.

Frames are FastAPI's. The rest is ours: a bounded number of places, an end for clients that do not read or may no longer
listen, and signs of life at the interval of the settings.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import asdict
from typing import Annotated, TypeAlias

import structlog
from fastapi import Header, Query
from fastapi.sse import format_sse_event
from pydantic.json_schema import SkipJsonSchema
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from ringtune.service.domain.values import ResultEvent
from ringtune.service.errors import Unavailable

from .dependencies import AppState, encoded
from .listeners import Listeners

POLL_S = 0.5
RETRY_MS = 3000
NUMBER = r"^[0-9]{1,18}$"
UNREAD_HEARTBEATS = 3
"""Heartbeats that a client may leave unread."""
HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}

MayListen: TypeAlias = Callable[[], Awaitable[bool]]
"""Tells whether the caller is still known; raises Unavailable while that cannot be told."""
LastEventId: TypeAlias = Annotated[str | None, Header(pattern=NUMBER, description="Go on after this one.")]
After: TypeAlias = Annotated[
    str | SkipJsonSchema[None], Query(pattern=NUMBER, description="The same, for who has not listened yet.")
]


class EventStream(StreamingResponse):
    """A reply that takes a place among the listeners while it lasts, and ends when its client does not read it.

    The unread frames are bounded: the server stops taking frames when its buffer is full.
    """

    media_type = "text/event-stream"

    def __init__(self, frames: AsyncIterator[bytes], listeners: Listeners, unread_s: float) -> None:
        """Send `frames`; a client that leaves them unread for `unread_s` is let go."""
        super().__init__(frames, headers=HEADERS)
        self._listeners = listeners
        self._unread_s = unread_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until one side ends it; raises Overloaded if no place is free."""

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


class _UnreadError(Exception):
    """The client has not read for too long."""


async def event_stream(state: AppState, known: str | None, may_listen: MayListen) -> EventStream:
    """Return the results that are stored from now on, or after one that the client knows.

    Args:
        state: The application's.
        known: Number of the last event that the client has; None: from now on.
        may_listen: Is asked again and again while the stream lasts.
    """
    newest = await run_in_threadpool(state.service.events.newest)
    begin = newest if known is None else min(int(known), newest)  # a larger one is of another ledger
    unread_s = UNREAD_HEARTBEATS * state.settings.events_heartbeat_s
    return EventStream(_frames(state, begin, may_listen), state.listeners, unread_s)


async def _frames(state: AppState, after: int, may_listen: MayListen) -> AsyncIterator[bytes]:
    """Yield frames until the client, its right to listen or the service goes; a database that is away is waited for.

    The first says where it begins, for a client that is cut off before any event.
    """
    quiet_s = 0.0
    yield format_sse_event(id=str(after), retry=RETRY_MS)
    while not state.ending.is_set() and await _is_allowed(may_listen):
        try:
            found = await run_in_threadpool(state.service.events.since, after)
        except Unavailable:
            found = ()
        if found:
            after = found[-1].number
            yield b"".join(map(_frame, found))
        quiet_s = 0.0 if found else quiet_s + POLL_S
        if quiet_s >= state.settings.events_heartbeat_s:
            quiet_s = 0.0
            yield format_sse_event(comment="alive")
        if not found:
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(state.ending.wait(), POLL_S)


async def _is_allowed(may_listen: MayListen) -> bool:
    try:
        return await may_listen()
    except Unavailable:
        return True


def _frame(event: ResultEvent) -> bytes:
    return format_sse_event(id=str(event.number), event="result", data_str=encoded(asdict(event)).decode())
