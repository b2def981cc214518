# SPDX-License-Identifier: Apache-2.0
"""Admission to the limited places."""

import asyncio
from dataclasses import dataclass, field

import pytest
from starlette.types import Receive, Scope, Send

from ringtune.service.api.admission import Admission, Arrivals, Gate
from ringtune.service.api.peers import PEER_KEY
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


@dataclass
class Link:
    """A connection that writes down what it is told."""

    told: list[str] = field(default_factory=list)

    def begin_request(self) -> None:
        """Take that a request is at work."""
        self.told.append("begun")

    def end_request(self) -> None:
        """Take that it is done."""
        self.told.append("ended")

    def recognise(self) -> bool:
        """Keep a place."""
        return True


def test_what_arrives_needs_room_beside_what_is_at_work() -> None:
    """Writes that nobody has begun to work on count like those that have a place."""
    admission = Admission(2, taken=1)

    before = admission.has_room
    admission.arriving += 1

    assert (True, False) == (before, admission.has_room)


def test_a_connection_is_told_of_its_requests() -> None:
    """When the application begins with one and when it is done, also if it failed; without one nothing is told."""

    async def fails(scope: Scope, receive: Receive, send: Send) -> None:
        link.told.append("failed")
        raise ConnectionAbortedError

    link = Link()
    scope = {**scope_of(RESULT, method="PUT"), "state": {PEER_KEY: link}}

    assert 200 == asyncio.run(ask(Arrivals(echo), scope)).status
    with pytest.raises(ConnectionAbortedError):
        asyncio.run(ask(Arrivals(fails), scope))
    assert 200 == asyncio.run(ask(Arrivals(echo), scope_of(RESULT, method="PUT"))).status

    assert ["begun", "ended", "begun", "failed", "ended"] == link.told
