# SPDX-License-Identifier: Apache-2.0
"""Every request has a name."""

import asyncio

import pytest

from ringtune.service.api.reply_headers import ReplyHeaders
from ringtune.service.api.request_ids import IdSource, request_id_of
from tests.unit.service.api.asgi import ask, echo, scope_of


@pytest.mark.parametrize(("given", "is_kept"), [("abc-1.2_3", True), ("a b", False), ("x" * 65, False), ("", False)])
def test_a_harmless_id_of_the_client_is_kept(given: str, is_kept: bool) -> None:
    """An id that could break a log line is replaced; the reply has the new one."""
    scope = scope_of(headers=[("x-request-id", given)])

    reply = asyncio.run(ask(ReplyHeaders(echo, ids=IdSource()), scope))

    assert is_kept == (given == reply.headers["x-request-id"])
    assert request_id_of(scope) == reply.headers["x-request-id"]


def test_ids_differ() -> None:
    """Requests and processes do not share them."""
    first, second = ReplyHeaders(echo, ids=IdSource()), ReplyHeaders(echo, ids=IdSource())

    found = [asyncio.run(ask(app, scope_of())).headers["x-request-id"] for app in (first, first, second)]

    assert 3 == len(set(found))
