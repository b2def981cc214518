# SPDX-License-Identifier: Apache-2.0
"""The cookie of a session: its name, its attributes, and which of several counts."""

import pytest
from starlette.requests import HTTPConnection
from starlette.responses import Response

from ringtune.dashboards.web.session_cookie import NAME, SECURE_NAME, forget_session, keep_session, session_id_of
from tests.unit.service.api.asgi import scope_of


def connection(scheme: str = "http", **headers: str) -> HTTPConnection:
    """Return a browser's request."""
    sent = [(name.replace("_", "-"), value) for name, value in headers.items()]
    return HTTPConnection({**scope_of("/studies", headers=sent), "scheme": scheme, "server": ("h", 80)})


def attributes(reply: Response) -> tuple[str, set[str]]:
    """Return the cookie that a reply sets, and its attributes in small letters."""
    first, *others = reply.headers["set-cookie"].split("; ")
    return first, {part.lower() for part in others}


@pytest.mark.parametrize(
    ("asked", "name", "more"),
    [
        (connection(), NAME, set()),
        (connection("https"), SECURE_NAME, {"secure"}),
        (connection(x_forwarded_proto="https"), SECURE_NAME, {"secure"}),
        (connection(x_forwarded_proto=" HTTPS , http"), SECURE_NAME, {"secure"}),
        (connection(x_forwarded_proto="http, https"), NAME, set()),
        (connection(x_forwarded_proto="httpsx"), NAME, set()),
    ],
)
def test_the_cookie_is_for_this_address_and_no_script(asked: HTTPConnection, name: str, more: set[str]) -> None:
    """Over TLS, ours or a proxy's, it has the prefix that binds it to the host and its path, and no domain."""
    kept, forgotten = Response(), Response()

    keep_session(kept, asked, "the-id", 3600.9)
    forget_session(forgotten, asked)

    assert (f"{name}=the-id", {"httponly", "samesite=strict", "path=/", "max-age=3600", *more}) == attributes(kept)
    value, how = attributes(forgotten)
    assert f'{name}=""' == value
    assert {"httponly", "samesite=strict", "path=/", "max-age=0", *more} <= how
    assert "domain" not in kept.headers["set-cookie"].lower()


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (connection(cookie=f"x=1; {NAME}=a; y=2"), "a"),
        (connection(cookie=f'{NAME}="a"'), "a"),
        (connection(cookie=f"not_{NAME}=a"), None),
        (connection(cookie=";;=;"), None),
        (connection(), None),
        (connection(cookie=f"{NAME}=of-a-path; {NAME}=a"), "a"),
        (connection(cookie=f"{SECURE_NAME}=b"), None),
        (connection("https", cookie=f"{NAME}=a; {SECURE_NAME}=b"), "b"),
        (connection("https", cookie=f"{NAME}=a"), None),
        (connection(x_forwarded_proto="https", cookie=f"{NAME}=a"), None),
    ],
)
def test_our_cookie_is_found_among_others(asked: HTTPConnection, expected: str | None) -> None:
    """The cookie's whole name counts: over TLS a cookie that another port could set without TLS is ignored."""
    assert expected == session_id_of(asked)
