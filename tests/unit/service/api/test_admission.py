# SPDX-License-Identifier: Apache-2.0
"""Admission to the limited places."""

import asyncio

from starlette.types import Receive, Scope, Send

from ringtune.service.api.admission import Admission, Gate
from tests.unit.service.api.asgi import Reply, ask, echo, scope_of


def test_the_gate_refuses_at_once_without_a_place() -> None:
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
