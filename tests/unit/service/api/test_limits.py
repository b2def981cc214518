# SPDX-License-Identifier: Apache-2.0
"""Bounds on a client's cost: a request over one is refused at once."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from ringtune.service.api import strict_json
from ringtune.service.api.authorization import CALLER_KEY
from ringtune.service.api.limits import BodyLimit, RateLimit
from tests.unit.service.api.asgi import Reply, ask, echo, scope_of

CHUNKED = [("transfer-encoding", "chunked")]


def limited(parts: list[bytes], headers: list[tuple[str, str]], path: str = "/v1/studies") -> Reply:
    """Send a body through a limit of 10 bytes, 20 for a log, or 5 for a sign-in."""
    app = BodyLimit(echo, bytes_max=10, by_path={"/v1/runs": 20, "/sign-in": 5}, timeout_s=5.0)
    return asyncio.run(ask(app, scope_of(path, method="POST", headers=headers), parts))


@pytest.mark.parametrize(
    ("parts", "headers", "path", "expected"),
    [
        ([b"0123456789"], [("content-length", "10")], "/v1/studies", 200),
        ([b"01234", b"56789"], CHUNKED, "/v1/studies", 200),
        ([b"0123456789a"], [("content-length", "11")], "/v1/studies", 413),
        ([b"01234", b"56789", b"a"], CHUNKED, "/v1/studies", 413),
        ([b"0123456789a"], [("content-length", "1")], "/v1/studies", 413),
        ([b"0123456789a"], CHUNKED, "/v1/runs", 200),
        ([b"012", b"34"], CHUNKED, "/sign-in", 200),
        ([b"012", b"345"], CHUNKED, "/sign-in", 413),
        ([b"x"], [("content-length", "1"), ("content-encoding", "gzip")], "/v1/studies", 415),
        ([b"x"], [("content-length", "1"), ("content-encoding", "identity")], "/v1/studies", 200),
    ],
)
def test_a_body_is_counted_as_it_comes(
    parts: list[bytes], headers: list[tuple[str, str]], path: str, expected: int
) -> None:
    """A missing or false Content-Length lets no more in; compressed bodies are refused unread."""
    reply = limited(parts, headers, path)

    assert expected == reply.status
    if expected == 200:
        assert b"".join(parts) == reply.body
    else:
        assert expected == reply.problem["status"]


def test_values_are_counted_as_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """A body of few bytes with many tiny values is refused, and takes no room while the rest of it comes."""
    monkeypatch.setattr(strict_json, "VALUES_MIN", 10)
    app = BodyLimit(echo, bytes_max=100, by_path={}, timeout_s=5.0)

    def post(*parts: bytes) -> Reply:
        return asyncio.run(ask(app, scope_of(method="POST", headers=CHUNKED), parts))

    assert [200, 413] == [post(b"[", *9 * [b"1,"], b"1]").status, post(b"[", *10 * [b"1,"], b"1]").status]
    assert [413, 413] == [post(11 * part).status for part in (b"[", b"{")]
    refused = post(*90 * [b"["])
    assert ("body_too_large", True) == (refused.problem["code"], "10 JSON values" in refused.problem["detail"])
    assert 0 == app._budget.held


def test_a_client_that_goes_away_is_not_answered() -> None:
    """Half of a body cannot be worked on."""
    assert 0 == limited([b"012", b"!"], CHUNKED).status


def test_a_body_that_trickles_is_given_up() -> None:
    """A client that does not send does not hold a place."""

    async def silence() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    replies: list[Message] = []

    async def send(message: Message) -> None:
        replies.append(message)

    app = BodyLimit(echo, bytes_max=10, by_path={}, timeout_s=0.01)
    asyncio.run(app(scope_of(method="POST", headers=CHUNKED), silence, send))

    assert 408 == replies[0]["status"]
    assert (b"connection", b"close") in replies[0]["headers"]


def test_all_bodies_together_are_bounded() -> None:
    """A body without room is refused at once with a time to come again; an answer, a failure or a loss makes room."""

    async def scenario() -> tuple[list[int], Reply, list[int], Reply]:
        go_on = asyncio.Event()

        async def slow(scope: Scope, receive: Receive, send: Send) -> None:
            await go_on.wait()
            await echo(scope, receive, send)

        async def fail(_scope: Scope, _receive: Receive, _send: Send) -> None:
            raise LookupError

        def post(app: BodyLimit, *parts: bytes) -> Coroutine[Any, Any, Reply]:
            return ask(app, scope_of(method="POST", headers=CHUNKED), parts)

        app = BodyLimit(slow, bytes_max=10, by_path={}, timeout_s=5.0)
        at_work = [asyncio.create_task(post(app, b"01234", b"56789")) for _ in range(2)]
        await asyncio.sleep(0)
        refused = await post(app, b"0")
        go_on.set()
        finished = [reply.status for reply in await asyncio.gather(*at_work)]
        lost = [(await post(app, b"0123456789", b"!")).status for _ in range(9)]
        app._app = fail
        for _ in range(9):
            with pytest.raises(LookupError):
                await post(app, b"0123456789")
        app._app = echo
        return finished, refused, lost, await post(app, b"0123456789")

    finished, refused, lost, after = asyncio.run(scenario())

    assert ([200] * 2, [0] * 9, 200) == (finished, lost, after.status)
    assert (503, "overloaded", "1") == (refused.status, refused.problem["code"], refused.headers["retry-after"])


def test_a_token_has_its_burst_and_then_its_rate() -> None:
    """A caller beyond the rate is told when to come back; others are not affected."""
    now_s = [0.0]
    app = RateLimit(echo, rate_per_s=2.0, burst=3, clock=lambda: now_s[0])

    def status(caller: str | None) -> Reply:
        return asyncio.run(ask(app, {**scope_of(), CALLER_KEY: caller}))

    assert [200, 200, 200, 429] == [status("a").status for _ in range(4)]
    refused = status("a")
    assert ("rate_limited", "1") == (refused.problem["code"], refused.headers["retry-after"])
    assert 200 == status("b").status
    assert {200} == {status(None).status for _ in range(10)}
    now_s[0] = 0.5
    assert [200, 429] == [status("a").status for _ in range(2)]
