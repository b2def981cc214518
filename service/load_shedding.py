# SPDX-License-Identifier: Apache-2.0
"""Replies that need no application: a refusal while no place is free, and the end of a head that is too large.

Until there is a place, a task, a token, a body and a rate would cost several times as much as the refusal, in the one
process that has to work on what was let in. The reply is the problem that any other refusal would be, with a request id
of its own.
"""

from collections.abc import Iterable
from email.utils import formatdate
from http import HTTPStatus
from typing import TypeAlias
from uuid import uuid4

from .api.admission import Admission
from .api.metrics import UNKNOWN_ROUTE, Metrics
from .api.problems import problem_response
from .api.refusals import HeadRefusedError
from .api.reply_headers import HEADERS
from .api.request_ids import HEADER, IdSource
from .errors import ServiceError
from .heads import HEAD_BYTES_MAX, Head

API = b"/v1/"
READING = frozenset({b"GET", b"HEAD"})
CLOSE = b"connection: close\r\n"
LENGTH = b"content-length"

Headers: TypeAlias = Iterable[tuple[bytes, bytes]]


class Refusals:
    """Answers that are sent where requests are read from their connections, as bytes."""

    def __init__(self, admission: Admission, metrics: Metrics, ids: IdSource) -> None:
        """Write down all of it that is the same for everybody."""
        self.admission = admission
        self._metrics = metrics
        self._ids = ids
        self._overloaded = _Reply(admission.refusal())
        self._too_large = _Reply(
            HeadRefusedError(f"the request's head has more than {HEAD_BYTES_MAX} bytes; send less in headers")
        )

    def is_due(self, head: Head) -> bool:
        """Tell whether a request is to be refused: it writes, and would find no place.

        Those that wait to be asked for their body are left to the gate.
        """
        return is_write(head) and not self.admission.has_room and not head.expects_continue

    def overloaded(self, head: Head) -> bytes:
        """Count a refusal for want of a place and return it."""
        return self._counted(self._overloaded, head, closes=not head.keeps_alive)

    def too_large(self, head: Head) -> bytes:
        """Count the refusal of a head that is too large and return it; the connection ends with it."""
        return self._counted(self._too_large, head, closes=True)

    def _counted(self, reply: "_Reply", head: Head, *, closes: bool) -> bytes:
        self._metrics.answered(head.method.decode("latin-1"), UNKNOWN_ROUTE, reply.status, 0.0)
        return reply.to(self._ids.id_for(head.headers).encode(), closes=closes)


class _Reply:
    """A problem as bytes, with a place for the request's id."""

    def __init__(self, error: ServiceError) -> None:
        place = str(uuid4())
        response = problem_response(error, place)
        self.status = error.status
        self._before_id, self._after_id = bytes(response.body).split(place.encode())
        phrase = HTTPStatus(error.status).phrase
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        same = _lines((name, value) for name, value in response.raw_headers if name != LENGTH)
        self._head = f"HTTP/1.1 {error.status} {phrase}\r\n".encode() + same

    def to(self, request_id: bytes, *, closes: bool) -> bytes:
        """Return the reply to one request."""
        body = b"".join((self._before_id, request_id, self._after_id))
        date = (b"date", formatdate(usegmt=True).encode())
        own = (date, (LENGTH, b"%d" % len(body)), (HEADER, request_id))
        return b"".join((self._head, _lines(own), CLOSE if closes else b"", b"\r\n", body))


def is_write(head: Head) -> bool:
    """Tell whether a request needs a place, and changes something."""
    return head.url.startswith(API) and head.method not in READING


def _lines(headers: Headers) -> bytes:
    return b"".join(b"%s: %s\r\n" % header for header in headers)
