# SPDX-License-Identifier: Apache-2.0
"""While no place is free, what writes is refused where it is read: no task, no token, no body, no rate.

All of that costs several times as much as the refusal, in the one process that has to work on what was let in. The
reply is the problem that any other refusal would be, with a request id of its own.
"""

from collections.abc import Iterable
from typing import Any, TypeAlias, cast
from uuid import uuid4

from starlette.types import Scope

from .api.admission import Admission
from .api.metrics import UNKNOWN_ROUTE, Metrics
from .api.problems import problem_response
from .api.request_ids import HEADER, IdSource
from .bounded_heads import BoundedHeads

API = b"/v1/"
READING = frozenset({b"GET", b"HEAD"})
STATUS_LINE = b"HTTP/1.1 503 Service Unavailable\r\n"
CLOSE = b"connection: close\r\n"
LENGTH = b"content-length"

Headers: TypeAlias = Iterable[tuple[bytes, bytes]]


class Refusals:
    """What an application answers those for whom it has no place, as bytes."""

    def __init__(self, admission: Admission, metrics: Metrics, ids: IdSource) -> None:
        """Write down all of it that is the same for everybody."""
        self.admission = admission
        self._metrics = metrics
        self._ids = ids
        error, place = admission.refusal(), str(uuid4())
        response = problem_response(error, place)
        self._status = error.status
        self._before_id, self._after_id = bytes(response.body).split(place.encode())
        self._head = _lines((name, value) for name, value in response.raw_headers if name != LENGTH)

    def reply(self, method: bytes, headers: Headers, server_headers: Headers, *, closes: bool) -> bytes:
        """Count a reply and return it.

        Args:
            method: Of the request.
            headers: Of the request.
            server_headers: Those that all replies have.
            closes: Whether the connection ends with it.
        """
        self._metrics.answered(method.decode(), UNKNOWN_ROUTE, self._status, 0.0)
        request_id = self._ids.id_for(headers).encode()
        body = b"".join((self._before_id, request_id, self._after_id))
        own = ((LENGTH, b"%d" % len(body)), (HEADER, request_id))
        return b"".join(
            (STATUS_LINE, _lines(server_headers), self._head, _lines(own), CLOSE if closes else b"", b"\r\n", body)
        )


def _lines(headers: Headers) -> bytes:
    return b"".join(b"%s: %s\r\n" % header for header in headers)


class EarlyRefusal(BoundedHeads):
    """The server's side of a connection, with what is refused before anything is begun.

    Left to the gate, which is later: requests that follow another one before its reply, and those that wait to be asked
    for their body.
    """

    def __init__(self, *arguments: Any, refusals: Refusals, **options: Any) -> None:
        """Take what Uvicorn gives, and what to answer."""
        super().__init__(*arguments, **options)
        self._refusals = refusals
        self._is_refused = False  # the request that is being read

    def on_message_begin(self) -> None:
        """Begin a request."""
        self._is_refused = False
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Answer 503, or begin to work on the request."""
        is_next = self.cycle is None or self.cycle.response_complete
        if is_next and self.url.startswith(API) and self.parser.get_method() not in READING:
            if not self._refusals.admission.has_room and not self.expect_100_continue:
                self._refuse()
                return
            self._refusals.admission.expect(cast("Scope", self.scope))
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a part of the body, or drop it."""
        if self._is_refused:
            self.note_part()
        else:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Take that the request is whole."""
        if self._is_refused:
            self.note_part()
        else:
            super().on_message_complete()

    def _refuse(self) -> None:
        self.note_part()
        self._is_refused = True
        closes = self.parser.get_http_version() == "1.0" or not self.parser.should_keep_alive()
        method, common = self.parser.get_method(), self.server_state.default_headers
        self.transport.write(self._refusals.reply(method, self.headers, common, closes=closes))
        if closes:
            self.transport.close()
        self.on_response_complete()
