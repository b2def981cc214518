# SPDX-License-Identifier: Apache-2.0
"""The fast path: recommendations that were encoded a moment ago are answered before any routing, for the same query.

An entry lives for `cache_ttl_s`. That is the whole invalidation: a recommendation that is a second old is as good as
one that was asked for a second earlier, and a write finds and locks no entry.
"""

import threading
from collections.abc import Callable

from cachetools import TTLCache
from starlette.types import ASGIApp, Receive, Scope, Send

from ringtune.service.errors import Forbidden

from .authorization import check_scope
from .metrics import ROUTE_KEY, Metrics
from .problems import send_problem

PATH = "/v1/recommendations"
MAX_QUERY_BYTES = 1024
"""Maximum bytes of a cached query: more than any that has each parameter once, but for names in odd letters."""


class RecommendationCache:
    """Encoded replies by query string, bounded in number and in age. Methods may be called from any thread."""

    def __init__(self, *, entries_max: int, ttl_s: float, clock: Callable[[], float]) -> None:
        """Keep up to `entries_max`, the last used, each for `ttl_s`."""
        self._lock = threading.Lock()
        self._entries: TTLCache[bytes, bytes] = TTLCache(entries_max, ttl_s, timer=clock)

    def get(self, query: bytes) -> bytes | None:
        """Return the reply to a query string, or None."""
        with self._lock:
            return self._entries.get(query)

    def put(self, query: bytes, body: bytes) -> None:
        """Keep a reply, unless its query is so long that many of them would fill the memory."""
        if len(query) > MAX_QUERY_BYTES or self._entries.maxsize == 0:
            return
        with self._lock:
            self._entries[query] = body


class CachedRecommendations:
    """ASGI middleware: answers from the cache where it can; everything else passes."""

    def __init__(self, app: ASGIApp, *, cache: RecommendationCache, metrics: Metrics) -> None:
        """Wrap `app`."""
        self._app = app
        self._cache = cache
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer out of the cache, or pass the request on."""
        if scope["type"] != "http" or scope["path"] != PATH or scope["method"] != "GET":
            await self._app(scope, receive, send)
            return
        body = self._cache.get(scope["query_string"])
        if body is None:
            await self._app(scope, receive, send)
            return
        scope[ROUTE_KEY] = PATH
        try:
            check_scope(scope, "read")
        except Forbidden as error:
            await send_problem(error, scope, receive, send)
            return
        self._metrics.cache_hits.inc()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})
