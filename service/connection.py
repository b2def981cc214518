# SPDX-License-Identifier: Apache-2.0
"""One connection: Uvicorn's protocol works on it, and what comes before and after a request's body is bounded here.

Bodies are counted where requests are worked on; heads are in memory before anybody asks for a token. Everything that
comes is read twice, by the same parser: here to know where requests begin and end, and behind to answer them. Of
Uvicorn only the methods of an `asyncio.Protocol` are used.
"""

import asyncio
from collections.abc import Callable
from typing import Any, TypeAlias, cast

import httptools

from .api.peers import PEER_KEY
from .heads import HeadReader, HeadTooLargeError
from .load_shedding import Refusals, is_write
from .open_connections import Awaited, OpenConnections, Reason

MakeProtocol: TypeAlias = Callable[[dict[str, Any]], asyncio.Protocol]
"""Returns the protocol that answers; it puts what it is given into each request's scope, as `state`."""
NoteClosed: TypeAlias = Callable[[Reason], None]


class Connection(asyncio.Protocol):
    """A connection that was accepted, from its first moment: it may still have to agree on TLS."""

    def __init__(self, places: OpenConnections, refusals: Refusals, make: MakeProtocol, note: NoteClosed) -> None:
        """Take a place; `note` is told why the service closed the connection, if it did."""
        self._places = places
        self._refusals = refusals
        self._note = note
        self._heads = HeadReader()
        self._behind = make({PEER_KEY: self})
        self._opening: asyncio.Task[Any] | None = None
        self._transport: asyncio.Transport | None = None
        self._at_work = 0  # requests whose head has come and that the application is not done with
        self._expected = 0  # writes that the application has not begun with
        self._refused = 0  # the number of the request that is being dropped, 0 for none

    def opened_by(self, opening: "asyncio.Task[Any]") -> None:
        """Take the task that opens the connection, to end it if the connection has to go before that."""
        self._opening = opening

    def close_for(self, reason: Reason) -> None:
        """End the connection; what was not sent yet is not sent."""
        self._note(reason)
        if self._transport is not None:
            self._transport.abort()
        elif self._opening is not None:
            self._opening.cancel()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.Transport", transport)
        self._opening = None
        self._behind.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """End; nothing is expected any more."""
        self._places.remove(self)
        self._refusals.admission.arriving -= self._expected
        self._expected = 0
        self._behind.connection_lost(exc)

    def eof_received(self) -> bool | None:
        """Take that the client sends no more."""
        return self._behind.eof_received()

    def pause_writing(self) -> None:
        """Take that the client does not read what it is sent."""
        self._places.note_unread(self, is_unread=True)
        self._behind.pause_writing()

    def resume_writing(self) -> None:
        """Take that the client reads on."""
        self._places.note_unread(self, is_unread=False)
        self._behind.resume_writing()

    def data_received(self, data: bytes) -> None:
        """Read on: pass everything to what answers, or refuse it here."""
        heads = self._heads
        is_next, before = heads.is_between and not self._at_work, heads.complete
        try:
            heads.feed(data)
        except HeadTooLargeError:
            self._refuse_head()
            return
        except httptools.HttpParserError:
            self._behind.data_received(data)  # finds the same, and says so
            return
        if self._refused:
            self._go_on_refusing()
        elif not is_next or heads.complete == before:
            self._pass_on(data, heads.complete - before)
        elif heads.begun == before + 1 and self._refusals.is_due(heads.head):
            self._refuse()
        else:
            if is_write(heads.head):
                self._refusals.admission.arriving += 1
                self._expected += 1
            self._pass_on(data, heads.complete - before)

    def begin_request(self) -> None:
        """Take that the application has begun: a write that was expected is there.

        One whose body is there, too, comes to its place before anything else is read. One whose body is not is no
        longer counted: it may never come.
        """
        if self._expected:
            self._expected -= 1
            self._refusals.admission.arriving -= 1

    def end_request(self) -> None:
        """Take that the application is done with a request."""
        self._at_work -= 1
        self._settle()

    def recognise(self) -> bool:
        """Count this connection with those that have a token; False if there is no place for one more."""
        return self._places.recognise(self)

    def _pass_on(self, data: bytes, new_requests: int) -> None:
        """Let what answers have data, in which the heads of so many requests end."""
        self._at_work += new_requests
        self._settle()
        self._behind.data_received(data)

    def _settle(self) -> None:
        """Say what is waited for."""
        if self._at_work > 0:
            self._places.wait_for(self, Awaited.WORK)
        else:
            self._places.wait_for(self, Awaited.HEAD if self._heads.is_in_head else Awaited.IDLE)

    def _refuse(self) -> None:
        """Answer 503, and drop the rest of the request."""
        head = self._heads.head
        self._write(self._refusals.overloaded(head))
        if head.keeps_alive:
            self._refused = 0 if self._heads.is_between else self._heads.begun
            self._places.wait_for(self, Awaited.IDLE)
        else:
            self._close()

    def _go_on_refusing(self) -> None:
        """Drop a part of a body; a request that follows in the same part is not answered: it cannot be told apart."""
        if self._heads.begun > self._refused:
            self._close()
        elif self._heads.is_between:
            self._refused = 0

    def _refuse_head(self) -> None:
        """Answer 431 where nothing else is being answered, and close."""
        if not self._at_work and not self._refused:
            self._write(self._refusals.too_large(self._heads.head))
        self._close()

    def _write(self, reply: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(reply)

    def _close(self) -> None:
        if self._transport is not None:
            self._transport.close()
