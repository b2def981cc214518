# SPDX-License-Identifier: Apache-2.0
"""One HTTP exchange with the service: bounded in time and size, its JSON strict, its failures typed.

Redirects are not followed, proxies and `.netrc` of the environment are not used: the token goes where the URL says.
"""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import httpcore
import httpx

from ringtune.system.printable import shown

from .address import bearer_token, service_url
from .deadline import DeadlineTransport, ExchangeDeadline
from .errors import ServiceRefusedError, ServiceReplyError, ServiceUnavailableError

Json: TypeAlias = Any

DEFAULT_LIMIT_S = 10.0
MAX_REPLY_BYTES = 64 << 10
"""Enough for every reply that a job reads; a list of studies takes more."""
MAX_RETRY_AFTER_S = 3600.0
SHOWN_CHARACTERS = 300
"""Characters of the service's reply that a message shows."""
NOT_NOW = (408, 429)
LINES = "application/x-ndjson"

_BROKEN = (
    httpx.HTTPError,
    httpcore.NetworkError,
    httpcore.ProtocolError,
    httpcore.TimeoutException,
    httpcore.UnsupportedProtocol,
    OSError,
)


@dataclass(frozen=True)
class ExchangeLimits:
    """Limits of one exchange.

    Attributes:
        exchange_s: Seconds from the call to the last byte of the answer.
        reply_bytes: Bytes of the answer.
    """

    exchange_s: float = DEFAULT_LIMIT_S
    reply_bytes: int = MAX_REPLY_BYTES


class Wire:
    """A kept connection to the service; thread-safe, one exchange at a time."""

    def __init__(self, url: str, token: str | None, limits: ExchangeLimits) -> None:
        """Connect with the first exchange.

        Raises:
            ConfigError: If the URL or the token is malformed.
        """
        self.url = service_url(url)
        self._limits = limits
        self._deadline = ExchangeDeadline()
        self._lock = threading.Lock()  # held for one exchange: the deadline is that one's
        secret = bearer_token(token)
        headers = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "ringtune"}
        if secret is not None:
            headers["Authorization"] = f"Bearer {secret}"
        transport = DeadlineTransport(self._deadline, is_encrypted=self.url.startswith("https:"))
        self._http = httpx.Client(headers=headers, transport=transport, trust_env=False)

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def exchange(
        self, method: str, path: str, *, query: Mapping[str, str] | None = None, body: Json | bytes = None
    ) -> Json:
        """Send a request and return the JSON of its answer, None where it is empty.

        Args:
            method: The method as HTTP writes it.
            path: Below the service's URL, quoted.
            query: Names and values, not quoted.
            body: JSON, or bytes: lines of JSON, sent as they are; None for no body.

        Raises:
            ServiceUnavailableError: If there was no answer in time, or it was "not now".
            ServiceRefusedError: If the answer is no.
            ServiceReplyError: If the answer is too large, or none of the service's.
        """
        with self._answer(method, path, query, body) as response:
            return _parsed(self._body(response))

    def lines(self, path: str) -> Iterator[bytes]:
        """Yield the lines of a long answer as they come, each within the limit of bytes; the whole within that of time.

        Raises:
            StoreError: As `exchange` does, also in the middle.
        """
        with self._answer("GET", path, None, None) as response:
            tail = b""
            for part in response.iter_raw():
                *whole, tail = (tail + part).split(b"\n")
                yield from whole
                if len(tail) > self._limits.reply_bytes:
                    raise ServiceReplyError(f"{self.url} sent a line of more than {self._limits.reply_bytes} bytes")
            if tail:
                raise ServiceReplyError(f"{self.url} ended in the middle of a line; ask again")

    @contextmanager
    def _answer(
        self, method: str, path: str, query: Mapping[str, str] | None, body: Json | bytes
    ) -> Iterator[httpx.Response]:
        """Send a request; the answer is a success whose body is still to be read."""
        content = body if body is None or isinstance(body, bytes) else json.dumps(body, allow_nan=False).encode()
        headers = {} if body is None else {"Content-Type": LINES if isinstance(body, bytes) else "application/json"}
        with self._lock:
            self._deadline.begin(self._limits.exchange_s)
            try:
                with self._http.stream(
                    method, f"{self.url}{path}", params=query, content=content, headers=headers
                ) as response:
                    self._check(response)
                    yield response
            except _BROKEN as error:
                reason = shown(str(error), SHOWN_CHARACTERS) or type(error).__name__
                raise ServiceUnavailableError(
                    f"the service at {self.url} did not answer {method} {path} ({reason}); is it running there?"
                ) from error

    def _check(self, response: httpx.Response) -> None:
        """Raise the error of the response's status, unless it is a success."""
        if response.headers.get("Content-Encoding", "identity") != "identity":
            raise ServiceReplyError(f"{self.url} answered in an encoding that was not asked for")
        if response.is_success:
            return
        if not response.is_error:
            raise ServiceReplyError(f"{self.url} answered {response.status_code}; give the URL of the service itself")
        problem = _problem(self._body(response))
        text = f"the service at {self.url} answered {response.status_code}: {problem['detail']}"
        if response.is_server_error or response.status_code in NOT_NOW:
            raise ServiceUnavailableError(text, retry_after_s=_retry_after_s(response))
        raise ServiceRefusedError(text, status=response.status_code, code=problem["code"])

    def _body(self, response: httpx.Response) -> bytes:
        body = bytearray()
        for part in response.iter_raw():
            body += part
            if len(body) > self._limits.reply_bytes:
                raise ServiceReplyError(f"{self.url} sent more than {self._limits.reply_bytes} bytes: not read")
        return bytes(body)


def _parsed(body: bytes) -> Json:
    """Return the JSON of a body, None of an empty one."""
    if not body:
        return None
    try:
        return json.loads(body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ServiceReplyError("the answer is not JSON: is this the URL of a ringtune service?") from error


def _refuse_constant(name: str) -> Json:
    raise ValueError(f"{name} is not JSON")


def _problem(body: bytes) -> dict[str, str]:
    """Return `code` and `detail` of a problem, as far as the body is one; both are text that can be shown."""
    try:
        data = _parsed(body)
    except ServiceReplyError:
        data = None
    fields = data if isinstance(data, dict) else {}
    detail = fields.get("detail") or fields.get("title")
    code = fields.get("code")
    return {
        "code": code if isinstance(code, str) and code.isidentifier() else "",
        "detail": shown(detail, SHOWN_CHARACTERS) if isinstance(detail, str) else "no reason was given",
    }


def _retry_after_s(response: httpx.Response) -> float | None:
    """Return the seconds of `Retry-After`; its form with a date is not used here."""
    text = response.headers.get("Retry-After", "")
    return min(float(text), MAX_RETRY_AFTER_S) if text.isdecimal() and text.isascii() else None
