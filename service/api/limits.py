# SPDX-License-Identifier: Apache-2.0
"""Bounds on the cost of a client: requests per token; bytes, JSON values and seconds of a body.

A request over a bound is refused at once, with `Retry-After` where waiting helps; no queue is without end.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from anyio import fail_after
from cachetools import LRUCache
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ringtune.service.errors import BodyTooLarge, Overloaded, RateLimited, ServiceError

from .authorization import CALLER_KEY
from .problems import send_problem
from .refusals import BodyTimeoutError, UnsupportedMediaTypeError
from .strict_json import count_values, values_max

MAX_CALLERS = 10_000
READ_FACTOR = 4
"""Multiple of the limit up to which a body that is too large is read before the connection is cut."""
HELD_FACTOR = 2
"""Multiple of the largest body that all bodies together may hold in memory, until their requests are answered."""


@dataclass
class _Bucket:
    tokens: float
    updated_s: float


class RateLimit:
    """ASGI middleware: a token bucket per bearer token. Callers without one (on loopback) are not limited.

    Memory is bounded and the clock monotonic; the package `limits` has neither.
    """

    def __init__(self, app: ASGIApp, *, rate_per_s: float, burst: int, clock: Callable[[], float]) -> None:
        """Allow `burst` requests at once and `rate_per_s` for ever; a rate of 0 allows any."""
        self._app = app
        self._rate_per_s = rate_per_s
        self._burst = burst
        self._clock = clock
        self._buckets: LRUCache[str, _Bucket] = LRUCache(MAX_CALLERS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer 429."""
        caller = scope.get(CALLER_KEY)
        wait_s = self._wait_s(caller) if caller is not None and self._rate_per_s > 0 else 0.0
        if wait_s > 0:
            detail = f"this token made more than {self._rate_per_s:g} requests/s; wait {wait_s:.2g} s, or send batches"
            await send_problem(RateLimited(detail, retry_after_s=wait_s), scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _wait_s(self, caller: str) -> float:
        """Take one from the caller's bucket and return 0, or return when there is one."""
        now_s = self._clock()
        bucket = self._buckets.setdefault(caller, _Bucket(self._burst, now_s))
        bucket.tokens = min(self._burst, bucket.tokens + (now_s - bucket.updated_s) * self._rate_per_s)
        bucket.updated_s = now_s
        if bucket.tokens < 1:
            return (1 - bucket.tokens) / self._rate_per_s
        bucket.tokens -= 1
        return 0.0


class BodyLimit:
    """ASGI middleware: reads the body, counting it, before anything works on it; compressed bodies are refused.

    JSON values are counted, too: as objects of Python each takes a hundred bytes, however short it is as text.
    All bodies that are in memory are counted together, too: there is room for a few of the largest.
    """

    def __init__(self, app: ASGIApp, *, bytes_max: int, by_path: Mapping[str, int], timeout_s: float) -> None:
        """Allow `bytes_max`, or the number in `by_path` for a path; a body has to be there after `timeout_s`."""
        self._app = app
        self._bytes_max = bytes_max
        self._by_path = by_path
        self._timeout_s = timeout_s
        self._budget = _MemoryBudget(HELD_FACTOR * max(bytes_max, *by_path.values(), 0))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with its whole body, or answer 408, 413 or 415."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        if b"content-length" not in headers and b"transfer-encoding" not in headers:
            await self._app(scope, receive, send)
            return
        with self._budget.share() as share:
            try:
                body = await self._read(scope["path"], headers, receive, share)
            except ServiceError as error:
                await send_problem(error, scope, receive, send)
                return
            if body is not None:
                await self._app(scope, _replay(body, receive), send)

    async def _read(
        self, path: str, headers: Mapping[bytes, bytes], receive: Receive, share: "_BodyShare"
    ) -> bytes | None:
        """Return the body, or None if the client went away."""
        encoding = headers.get(b"content-encoding", b"identity").strip().lower()
        if encoding != b"identity":
            raise UnsupportedMediaTypeError("compressed bodies are not read; send it without Content-Encoding")
        bytes_max = self._by_path.get(path, self._bytes_max)
        try:
            with fail_after(self._timeout_s):
                return await _gather(receive, bytes_max, share)
        except TimeoutError as error:
            raise BodyTimeoutError(f"the body was not there after {self._timeout_s:g} s; send it faster") from error


class _MemoryBudget:
    """Bytes of bodies that are in memory, of all requests."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.held = 0

    @contextmanager
    def share(self) -> Iterator["_BodyShare"]:
        """Count one request's bytes while it lasts."""
        share = _BodyShare(self)
        try:
            yield share
        finally:
            self.held -= share.held


class _BodyShare:
    """The bytes of one request."""

    def __init__(self, budget: _MemoryBudget) -> None:
        self._budget = budget
        self.held = 0

    def take(self, count: int) -> None:
        """Count bytes; raises Overloaded where there is no room for them."""
        if self._budget.held + count > self._budget.bytes_max:
            raise Overloaded(
                f"{self._budget.held} bytes of bodies are at work; nothing was done with this one; try again"
            )
        self._budget.held += count
        self.held += count

    def give_back(self) -> None:
        """End the count: the bytes were dropped."""
        self._budget.held -= self.held
        self.held = 0


async def _gather(receive: Receive, bytes_max: int, share: _BodyShare) -> bytes | None:
    """Return the body, or None if the client went away; raises Overloaded where all bodies together are too large.

    A little too much is read to its end and dropped: a connection that is closed on a client that still sends resets,
    and the client would never read why.
    """
    parts: list[bytes] = []
    size = values = 0
    has_more, most_values = True, values_max(bytes_max)
    while has_more and size <= READ_FACTOR * bytes_max:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        part = message.get("body", b"")
        size += len(part)
        values += count_values(part) if values <= most_values else 0
        if size > bytes_max or values > most_values:
            parts.clear()
            share.give_back()
        else:
            share.take(len(part))
            parts.append(part)
        has_more = message.get("more_body", False)
    if size > bytes_max:
        raise BodyTooLarge(f"the body has more than the {bytes_max} bytes that are allowed; send it in parts")
    if values > most_values:
        raise BodyTooLarge(f"the body has more than the {most_values} JSON values that are allowed; send it in parts")
    return b"".join(parts)


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that gives the body once, and then the connection's further messages."""
    waiting = [body]

    async def receive_again() -> Message:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        return await receive()

    return receive_again
