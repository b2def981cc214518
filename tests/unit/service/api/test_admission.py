# SPDX-License-Identifier: Apache-2.0
"""Who finds a place, and who is refused without being read."""

import asyncio

import pytest
from starlette.types import Message, Receive, Scope, Send

from ringtune.service.api.admission import Admission, EarlyRefusal, Gate
from tests.unit.service.api.asgi import Reply, ask, echo, scope_of

RESULT = "/v1/studies/a/trials/b/result"


def test_the_gate_refuses_at_once_what_it_cannot_take() -> None:
    """The place is free again when a request has ended, also if it failed; health is always answered."""

    async def scenario() -> tuple[list[int], int, Reply, int]:
        go_on = asyncio.Event()

        async def slow(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["path"] == "/v1/studies":
                await go_on.wait()
            await echo(scope, receive, send)

        gate = Gate(slow, admission=Admission(2))
        at_work = [asyncio.create_task(ask(gate, scope_of())) for _ in range(2)]
        await asyncio.sleep(0)
        refused = await ask(gate, scope_of())
        health = await ask(gate, scope_of("/healthz"))
        go_on.set()
        finished = [reply.status for reply in await asyncio.gather(*at_work)]
        return finished, (await ask(gate, scope_of())).status, refused, health.status

    finished, after, refused, health = asyncio.run(scenario())

    assert ([200, 200], 200, 200) == (finished, after, health)
    assert (503, "overloaded", "1") == (refused.status, refused.problem["code"], refused.headers["retry-after"])


@pytest.mark.parametrize(
    ("method", "path", "taken", "expected"),
    [
        ("PUT", RESULT, 2, 503),
        ("POST", "/v1/studies", 2, 503),
        ("DELETE", "/v1/studies/a", 2, 503),
        ("PUT", RESULT, 1, 200),
        ("GET", "/v1/recommendations", 2, 200),
        ("HEAD", "/v1/studies", 2, 200),
        ("POST", "/sign-in", 2, 200),
    ],
)
def test_writes_are_refused_early_while_no_place_is_free(method: str, path: str, taken: int, expected: int) -> None:
    """What reads may be answered without a place, and what is for people is no write of the API."""
    app = EarlyRefusal(echo, admission=Admission(2, taken))

    reply = asyncio.run(ask(app, scope_of(path, method=method)))

    assert expected == reply.status
    if expected == 503:
        assert ("overloaded", "1") == (reply.problem["code"], reply.headers["retry-after"])


def test_what_is_refused_early_is_not_read() -> None:
    """Its body costs nothing."""

    async def forbidden() -> Message:
        raise AssertionError("the body was read")

    async def scenario() -> list[Message]:
        sent: list[Message] = []

        async def send(message: Message) -> None:
            sent.append(message)

        await EarlyRefusal(echo, admission=Admission(1, 1))(scope_of(RESULT, method="PUT"), forbidden, send)
        return sent

    assert 503 == asyncio.run(scenario())[0]["status"]
