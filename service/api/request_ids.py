# SPDX-License-Identifier: Apache-2.0
"""Request ids: one for every request, in the reply's `X-Request-ID` and in the log; a client's harmless one is kept.

A request whose head is too large has one, too, which a middleware such as asgi-correlation-id does not reach.
"""

import itertools
import re
import secrets
from collections.abc import Iterable

from starlette.types import Scope

HEADER = b"x-request-id"
KEY = "ringtune.request_id"
HARMLESS = re.compile(rb"[A-Za-z0-9._-]{1,64}")


class IdSource:
    """Gives each request of a process its id."""

    def __init__(self) -> None:
        """Begin all ids with something that no other process has."""
        self._prefix = secrets.token_hex(4)
        self._numbers = itertools.count(1)

    def id_for(self, headers: Iterable[tuple[bytes, bytes]]) -> str:
        """Return the id that the client gave, if it is harmless, or the next one."""
        for name, value in headers:
            if name == HEADER and HARMLESS.fullmatch(value):
                return value.decode()
        return f"{self._prefix}-{next(self._numbers):x}"


def request_id_of(scope: Scope) -> str:
    """Return the request's id; empty where it has none yet."""
    return str(scope.get(KEY, ""))
