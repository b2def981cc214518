# SPDX-License-Identifier: Apache-2.0
"""One connection: Uvicorn's protocol for HTTP/1.1, with a bound on heads and with its place among the connections.

Uvicorn counts bodies alone, and gives a head any time and any size. Its parser calls the methods below, so that the
bytes are parsed once. They are those of an `asyncio.Protocol` and the callbacks of httptools; of Uvicorn itself they
replace `send_400_response` and `on_response_complete`.
"""

import asyncio
from collections.abc import Callable, Sequence
from email.utils import formatdate
from http import HTTPStatus
from typing import Any, TypeAlias

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from .api.peers import PEER_KEY
from .api.problems import problem_response
from .api.refusals import HeadRefusedError
from .api.reply_headers import HEADERS
from .api.request_ids import HEADER
from .open_connections import Awaited, OpenConnections, Reason

HEAD_BYTES_MAX = 32 * 1024
"""Bytes of one request's head, and of the trailers after its body, that are read."""
PER_HEADER_BYTES = 4
"""The colon, the space and the end of the line."""

Headers: TypeAlias = Sequence[tuple[bytes, bytes]]


class _HeadTooLargeError(Exception):
    """A head, or the trailers after a body, have more than `HEAD_BYTES_MAX` bytes."""


class Connection(HttpToolsProtocol):
    """A connection that was accepted, from its first moment: it may still have to agree on TLS."""

    def __init__(
        self,
        server: uvicorn.Server,
        places: OpenConnections,
        on_closed: Callable[[Reason], None],
        head_refusal: Callable[[Headers], bytes],
    ) -> None:
        """Begin before the transport is there.

        Args:
            server: The server whose application answers.
            places: The places of all connections.
            on_closed: Called with the reason if the service closes the connection.
            head_refusal: Returns the reply to a head that is too large, given the headers read so far.
        """
        super().__init__(config=server.config, server_state=server.server_state, app_state={PEER_KEY: self})
        self._places = places
        self._on_closed = on_closed
        self._head_refusal = head_refusal
        self._opening: asyncio.Task[Any] | None = None
        self._at_work = 0  # requests whose head has come and whose reply has not ended
        self._is_in_head = False
        self._head_bytes = 0  # of this request, as far as the parser has reported them
        self._unreported_bytes = 0  # read since the parser reported anything: the beginning of a long header

    def opened_by(self, opening: "asyncio.Task[Any]") -> None:
        """Take the task that opens the connection, to end it if the connection has to go before that."""
        self._opening = opening

    def close_for(self, reason: Reason) -> None:
        """End the connection; bytes that were not sent yet are dropped."""
        self._on_closed(reason)
        if self._opening is not None:
            self._opening.cancel()
        else:
            self.transport.abort()

    def recognise(self) -> bool:
        """Count this connection with those that have a token; False if there is no place for one more."""
        return self._places.recognise(self)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in the base
        """Begin."""
        self._opening = None
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._places.remove(self)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Take that the client does not read its reply."""
        self._places.note_unread(self, is_unread=True)
        super().pause_writing()

    def resume_writing(self) -> None:
        """Take that the client reads on."""
        self._places.note_unread(self, is_unread=False)
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        """Parse bytes; a header without end is refused, although the parser has reported none of it."""
        self._unreported_bytes += len(data)
        super().data_received(data)
        if self._unreported_bytes > HEAD_BYTES_MAX:
            self._refuse_head()

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        self._head_bytes = self._unreported_bytes = 0
        self._is_in_head = True
        self._settle()

    def on_url(self, url: bytes) -> None:
        """Take a part of the address."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header, or a trailer."""
        self._count(len(name) + len(value) + PER_HEADER_BYTES)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Have the request answered."""
        self._unreported_bytes = 0
        super().on_headers_complete()
        self._is_in_head = False
        self._at_work += 1
        self._settle()

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        self._unreported_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Take that the request is whole."""
        self._unreported_bytes = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Take that a reply has ended."""
        self._at_work -= 1
        self._settle()
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse bytes that are no HTTP, or a head for which the parser was stopped."""
        if self._head_bytes > HEAD_BYTES_MAX:
            self._refuse_head()
        else:
            super().send_400_response(msg)

    def _count(self, size: int) -> None:
        """Count bytes of a head; the error stops the parser."""
        self._unreported_bytes = 0
        self._head_bytes += size
        if self._head_bytes > HEAD_BYTES_MAX:
            raise _HeadTooLargeError

    def _settle(self) -> None:
        """Note the event that the connection waits for."""
        if self._at_work > 0:
            self._places.wait_for(self, Awaited.WORK)
        else:
            self._places.wait_for(self, Awaited.HEAD if self._is_in_head else Awaited.IDLE)

    def _refuse_head(self) -> None:
        """Answer 431, unless another reply is under way, and close."""
        if not self._at_work and not self.transport.is_closing():
            self.transport.write(self._head_refusal(self.headers or ()))
        self.transport.close()


def head_refusal(request_id: str) -> bytes:
    """Return the whole reply to a head that is too large; the connection ends with it."""
    error = HeadRefusedError(f"the request's head has more than {HEAD_BYTES_MAX} bytes; send less in headers")
    own = {HEADER.decode(): request_id, "date": formatdate(usegmt=True), "connection": "close"}
    response = problem_response(error, request_id, headers={**HEADERS, **own})
    status = f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}".encode()
    return b"\r\n".join((status, *(b"%s: %s" % header for header in response.raw_headers), b"", bytes(response.body)))
