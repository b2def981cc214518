# SPDX-License-Identifier: Apache-2.0
"""Exports whose readers stall: they are few, they end, and they give back their connections."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.types import Message

from ringtune.service.api.dependencies import EXPORTS, AppState
from ringtune.service.api.v1 import archive
from tests.contract.service.applications import ADMIN_SECRET, application, bearer
from tests.unit.service.api.asgi import Reply, ask, scope_of
from tests.unit.service.domain.reported import BETTER, new_id, result, study_of, tell

RESULTS = 20
LINES = 1 + 1 + RESULTS + 1
"""A header, a study, its results and the seal."""
Send = Callable[[Message], Awaitable[None]]


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FastAPI]:
    """An application with some results, whose exports have several parts."""
    monkeypatch.setattr(archive, "LINES_PER_PART", 5)
    made = application(tmp_path)
    service = made.state.service_state.service
    service.migrate()
    service.start()
    study_id = study_of(service).study_id
    for number in range(RESULTS):
        tell(service, study_id, new_id(), result("job-1", BETTER, 80.0 + number))
    yield made
    service.close()


class Stalled:
    """A reader that takes the head and one part, and no more until it is released."""

    def __init__(self) -> None:
        """Be patient."""
        self.has_begun, self.goes_on = asyncio.Event(), asyncio.Event()
        self.parts: list[bytes] = []

    async def send(self, message: Message) -> None:
        """Take a message."""
        if message["type"] == "http.response.body":
            self.parts.append(message["body"])
            self.has_begun.set()
            await self.goes_on.wait()


def export_scope() -> dict[str, Any]:
    """Return the scope of an export."""
    return scope_of("/v1/export", headers=[(name.lower(), value) for name, value in bearer(ADMIN_SECRET).items()])


async def patient_receive() -> Message:
    """Send no byte, as a connection that is open."""
    await asyncio.Event().wait()
    raise AssertionError


@asynccontextmanager
async def stalled(app: FastAPI, count: int) -> AsyncIterator[tuple[list[Stalled], list["asyncio.Task[None]"]]]:
    """Yield exports that have begun and whose readers have stalled."""
    readers = [Stalled() for _ in range(count)]
    tasks = [asyncio.ensure_future(app(export_scope(), patient_receive, reader.send)) for reader in readers]
    await asyncio.gather(*(reader.has_begun.wait() for reader in readers))
    yield readers, tasks
    await asyncio.gather(*tasks)


def held(app: FastAPI) -> tuple[int, int]:
    """Return the database connections in use, and the places of exports that are taken."""
    parts: AppState = app.state.service_state
    return parts.service.load().connections, parts.exports.taken


def test_as_many_exports_as_there_are_places_and_others_are_told_when_to_come(app: FastAPI) -> None:
    """Everything else finds a connection meanwhile; exports that go on are whole."""

    async def scenario() -> tuple[Reply, Reply, list[int]]:
        async with stalled(app, EXPORTS) as (readers, _):
            refused = await ask(app, export_scope())
            ready = await ask(app, scope_of("/readyz"))
            for reader in readers:
                reader.goes_on.set()
        return refused, ready, [b"".join(reader.parts).count(b"\n") for reader in readers]

    refused, ready, lines = asyncio.run(scenario())

    assert (503, "overloaded", "1") == (refused.status, refused.problem["code"], refused.headers["retry-after"])
    assert f"{EXPORTS} exports" in refused.problem["detail"]
    assert 200 == ready.status
    assert EXPORTS * [LINES] == lines
    assert (0, 0) == held(app)


def test_a_reader_that_stalls_for_long_is_left(app: FastAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reply ends without its last line, and its place is free for the next one."""
    monkeypatch.setattr(archive, "READER_S", 0.05)

    async def scenario() -> list[int]:
        async with stalled(app, 1) as (readers, tasks):
            await asyncio.gather(*tasks)
        async with stalled(app, 1) as (others, _):
            others[0].goes_on.set()
        return [b"".join(reader.parts).count(b"\n") for reader in (*readers, *others)]

    taken, again = asyncio.run(scenario())

    assert taken < LINES
    assert LINES == again
    assert (0, 0) == held(app)


def test_a_reader_that_goes_away_gives_its_connection_back(app: FastAPI) -> None:
    """Though it was asked to take more."""

    async def scenario() -> None:
        reader = Stalled()

        async def receive() -> Message:
            await reader.has_begun.wait()
            return {"type": "http.disconnect"}

        await app(export_scope(), receive, reader.send)

    asyncio.run(scenario())

    assert (0, 0) == held(app)
