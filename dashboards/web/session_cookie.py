# SPDX-License-Identifier: Apache-2.0
"""The cookie of a browser that signed in: the id of a session, never a token.

Scripts cannot read it, other sites cannot send it. Other ports of the host can receive it, for cookies know no ports;
their copy reads pages until it ends, and cannot change data (`confirming`). Over TLS the prefix `__Host-` and `Secure`
keep it from ports without TLS, and let none of these put another one in its place.
"""

from starlette.requests import HTTPConnection
from starlette.responses import Response

NAME = "ringtune_session"
SECURE_NAME = f"__Host-{NAME}"


def session_id_of(connection: HTTPConnection) -> str | None:
    """Return the session's id that a browser sends; over TLS only the cookie with the prefix counts."""
    return connection.cookies.get(_name(connection))


def keep_session(reply: Response, connection: HTTPConnection, session_id: str, max_age_s: float) -> None:
    """Have the browser keep a session's id."""
    reply.set_cookie(
        _name(connection),
        session_id,
        max_age=int(max_age_s),
        path="/",
        secure=is_secure(connection),
        httponly=True,
        samesite="strict",
    )


def forget_session(reply: Response, connection: HTTPConnection) -> None:
    """Have the browser forget the session's id."""
    reply.delete_cookie(_name(connection), path="/", secure=is_secure(connection), httponly=True, samesite="strict")


def is_secure(connection: HTTPConnection) -> bool:
    """Tell whether the browser's connection is encrypted, by us or by a proxy that says so."""
    forwarded = connection.headers.get("x-forwarded-proto", "").partition(",")[0].strip().lower()
    return connection.url.scheme == "https" or forwarded == "https"


def _name(connection: HTTPConnection) -> str:
    return SECURE_NAME if is_secure(connection) else NAME
