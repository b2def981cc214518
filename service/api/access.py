# SPDX-License-Identifier: Apache-2.0
"""Authentication: every path needs a bearer token, except `OPEN_PATHS` and those that pages for people name.

Where the service listens on loopback and no token was ever created, it is open to this machine. Then the Host and
Origin headers must name loopback, or a web page could reach the service under a name of its own.
"""

import asyncio
import hashlib
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from anyio import CapacityLimiter, to_thread
from cachetools import LRUCache
from starlette.types import ASGIApp, Receive, Scope, Send

from ringtune.service.domain.page_sessions import SETTING
from ringtune.service.domain.service import Service
from ringtune.service.errors import Overloaded, ServiceError, Unauthenticated, UnknownHost
from ringtune.service.settings import ServiceSettings, is_loopback_host

from .authorization import CALLER_KEY, EVERYTHING, OPEN_KEY, SCOPES_KEY, SESSION_KEY, Scopes
from .guesses import Guesses
from .peers import peer_of
from .problems import send_problem

OPEN_PATHS = frozenset({"/healthz", "/readyz"})
"""Paths that need no token."""
SCHEME = "bearer"
MAX_SECRET_BYTES = 256
MAX_KNOWN = 4096
MAX_LOOKUPS = 4
"""Unknown secrets that are looked up at the same time; guessing must not keep the database busy."""


@dataclass(frozen=True)
class Caller:
    """The caller of a request; `token_id` is None for an open service."""

    token_id: str | None
    scopes: Scopes


@dataclass(frozen=True)
class _Known:
    caller: Caller | None
    until_s: float


class Callers:
    """Finds the caller of a request; remembers it for a moment, so that a revoked token works that long at most.

    Attributes:
        of_settings: The tokens that are settings, each with its caller.
    """

    def __init__(self, service: Service, settings: ServiceSettings, clock: Callable[[], float]) -> None:
        """Ask `service`, in its thread pool."""
        self._service = service
        self.of_settings = tuple(
            (token.get_secret_value().encode(), Caller(f"{SETTING}{scope}", frozenset({scope})))
            for scope, token in settings.fixed_tokens.items()
        )
        self._is_loopback = settings.is_loopback
        self._ttl_s = settings.cache_ttl_s
        self._clock = clock
        self._guesses = Guesses(clock)
        # With their age beside them: whoever was known lately is looked up before strangers are.
        self._known: LRUCache[bytes, _Known] = LRUCache(MAX_KNOWN)
        self._strangers: LRUCache[bytes, _Known] = LRUCache(MAX_KNOWN)  # apart: guesses make no caller forgotten
        self._pending: dict[bytes, asyncio.Future[Caller | None]] = {}
        # Threads of their own let known callers wait neither for work to end nor for guesses.
        self._threads, self._threads_of_known = CapacityLimiter(MAX_LOOKUPS), CapacityLimiter(MAX_LOOKUPS)

    async def find_from(self, scope: Scope, headers: Mapping[bytes, bytes]) -> Caller:
        """Return the caller who sent these headers; an address that sends many invalid tokens has to wait.

        Raises:
            Unauthenticated: As `find`, and so for all that it raises.
            RateLimited: If too many tokens from the request's address were not valid.
        """
        authorization = headers.get(b"authorization")
        if authorization is None:
            return await self.find(headers)
        _secret_of(authorization)  # a text that can be no token is no guess
        address = str((scope.get("client") or ("unknown", 0))[0])
        self._guesses.check(address, authorization)
        try:
            caller = await self.find(headers)
        except Unauthenticated:
            self._guesses.failed(address, authorization)
            raise
        self._guesses.succeeded(address, authorization)
        return caller

    async def find(self, headers: Mapping[bytes, bytes]) -> Caller:
        """Return the caller who sent these headers.

        Raises:
            Unauthenticated: If there is no valid token, and the service is not open.
            UnknownHost: If it is open, and the Host or Origin names another machine.
            Overloaded: If too many tokens are being looked up, and this one was not valid lately.
        """
        authorization = headers.get(b"authorization")
        if authorization is None:
            if not self._is_loopback or self.of_settings or await self._remembered(b"", self._stranger):
                raise Unauthenticated("send a token: Authorization: Bearer ...; an operator creates it: ringtune token")
            check_names(headers)
            return Caller(None, EVERYTHING)
        secret = _secret_of(authorization)
        for known, fixed_caller in self.of_settings:
            if hmac.compare_digest(known, secret):
                return fixed_caller
        caller = await self._remembered(hashlib.sha256(secret).digest(), lambda: self._authenticated(secret))
        if caller is None:
            raise Unauthenticated("the token is not known, or was revoked; ask an operator for another")
        return caller

    async def _remembered(self, key: bytes, look_up: Callable[[], Caller | None]) -> Caller | None:
        known = self._known.get(key) or self._strangers.get(key)
        if known is not None and known.until_s > self._clock():
            return known.caller
        if key not in self._pending:
            if key not in self._known and len(self._pending) >= MAX_LOOKUPS:
                raise Overloaded("too many tokens are being looked up; try again")
            self._pending[key] = asyncio.ensure_future(self._look_up(key, look_up))
        return await asyncio.shield(self._pending[key])  # a caller that goes away does not cost the others the answer

    async def _look_up(self, key: bytes, look_up: Callable[[], Caller | None]) -> Caller | None:
        threads = self._threads_of_known if key in self._known else self._threads
        try:
            caller = await to_thread.run_sync(look_up, limiter=threads)
        finally:
            del self._pending[key]
        for kept in (self._known, self._strangers):
            kept.pop(key, None)
        kept = self._strangers if caller is None else self._known
        kept[key] = _Known(caller, self._clock() + self._ttl_s)
        return caller

    def _stranger(self) -> Caller | None:
        """Return a caller without permissions if a token was ever created; None if the service is open."""
        return Caller(None, frozenset()) if self._service.tokens.list() else None

    def _authenticated(self, secret: bytes) -> Caller | None:
        token = self._service.tokens.authenticate(secret.decode("ascii"))
        return None if token is None else Caller(token.token_id, frozenset(token.scopes))


class Access:
    """ASGI middleware: no request passes without a caller, whatever the path, unless the path is open."""

    def __init__(self, app: ASGIApp, *, callers: Callers, open_paths: frozenset[str] = OPEN_PATHS) -> None:
        """Wrap `app`."""
        self._app = app
        self._callers = callers
        self._open_paths = open_paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with its caller, or answer 401, 421, 429 or 503."""
        if scope["type"] == "lifespan" or scope["path"] in self._open_paths:
            scope[OPEN_KEY] = True
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # a WebSocket is closed: there is none here
        if scope.get(SESSION_KEY) is not None:
            await self._app(scope, receive, send)
            return
        try:
            let_in(scope, await self._callers.find_from(scope, dict(scope["headers"])))
        except ServiceError as error:
            await send_problem(error, scope, receive, send)
            return
        await self._app(scope, receive, send)


def let_in(scope: Scope, caller: Caller) -> None:
    """Note in a request's scope its caller, and count its connection with those of known callers.

    Raises:
        Overloaded: If no place is left among these.
    """
    peer = peer_of(scope)
    if caller.token_id is not None and peer is not None and not peer.recognise():
        raise Overloaded("too many connections are at work; nothing was done with this request; try again")
    scope[CALLER_KEY] = caller.token_id
    scope[SCOPES_KEY] = caller.scopes


def check_names(headers: Mapping[bytes, bytes]) -> None:
    """Raise UnknownHost unless the Host, and the Origin if there is one, are names of loopback."""
    host = headers.get(b"host", b"").decode("latin-1")
    origin = headers.get(b"origin")
    for name, url in (("Host", f"//{host}"), ("Origin", origin.decode("latin-1") if origin is not None else None)):
        if url is not None and not is_loopback_host(_host_in(url)):
            raise UnknownHost(
                f"the {name} header is {url.removeprefix('//')[:100]!r}; without tokens the service answers only to "
                "localhost, 127.0.0.1 and [::1]"
            )


def _host_in(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _secret_of(authorization: bytes) -> bytes:
    kind, _, secret = authorization.partition(b" ")
    secret = secret.strip()
    if kind.lower() != SCHEME.encode() or not 0 < len(secret) <= MAX_SECRET_BYTES or not secret.isascii():
        raise Unauthenticated("the Authorization header is no bearer token; send Authorization: Bearer ...")
    return secret
