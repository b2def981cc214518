# SPDX-License-Identifier: Apache-2.0
"""Load shedding over real connections: while no place is free, writes are refused; all else goes its way."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from starlette.types import Receive, Scope, Send

from ringtune.service.api.admission import Gate, LoadShedding
from ringtune.service.api.dependencies import AppState
from ringtune.service.api.limits import BodyLimit
from ringtune.service.api.outcomes import Outcomes
from ringtune.service.api.reply_headers import ReplyHeaders
from ringtune.service.open_connections import ConnectionLimits
from tests.contract.service.applications import application
from tests.integration.service.acceptors import PATIENT, open_acceptor

LIMIT_S = 60.0
PLACES = 3
CROWD = 12
WRITE = b"PUT /v1/studies/a HTTP/1.1\r\nhost: here\r\n"
BODY = b"content-length: 5\r\n\r\nhello"
CHUNKED = b"transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
READ = b"GET /v1/studies HTTP/1.1\r\nhost: here\r\n\r\n"


@dataclass
class Answer:
    """One reply."""

    status: int
    headers: dict[str, str]
    body: bytes


@dataclass
class Server:
    """An application behind the protocol.

    Attributes:
        parts: Parts of the application; a test fills its places.
        address: The address where it listens.
        go_on: Set: requests are answered.
        let_in: Methods of the requests that were not refused early.
    """

    parts: AppState
    address: tuple[str, int]
    go_on: asyncio.Event
    let_in: list[str]

    async def connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return a connection."""
        return await asyncio.open_connection(*self.address)

    async def answers(self, *requests: bytes) -> list[Answer]:
        """Send requests on one connection, each after the reply to the one before."""
        reader, writer = await self.connected()
        found = []
        for request in requests:
            writer.write(request)
            found.append(await answer_of(reader))
        writer.close()
        return found

    def refused(self) -> float:
        """Return the number of refused writes."""
        labels = {"method": "PUT", "route": "unknown", "status": "503"}
        return self.parts.metrics.registry.get_sample_value("ringtune_requests_total", labels) or 0.0


async def answer_of(reader: asyncio.StreamReader) -> Answer:
    """Return the next reply."""
    head = CONTINUE
    while head == CONTINUE:
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), LIMIT_S)
    status, *lines = head.decode().removesuffix("\r\n\r\n").split("\r\n")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    body = await asyncio.wait_for(reader.readexactly(int(headers["content-length"])), LIMIT_S)
    return Answer(int(status.split()[1]), headers, body)


@asynccontextmanager
async def serving(folder: Path, *, taken: int, limits: ConnectionLimits = PATIENT) -> AsyncIterator[Server]:
    """Yield a server of which so many of three places are taken; requests get their body back as the answer."""
    parts: AppState = application(folder, requests_max=PLACES).state.service_state
    parts.admission.taken = taken
    go_on = asyncio.Event()
    let_in: list[str] = []

    async def echo(_scope: Scope, receive: Receive, send: Send) -> None:
        body, has_more = b"", True
        while has_more:
            message = await receive()
            body += message.get("body", b"")
            has_more = message.get("more_body", False)
        await go_on.wait()
        headers = [(b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    inner = BodyLimit(Gate(echo, admission=parts.admission), bytes_max=100, by_path={}, timeout_s=LIMIT_S)

    async def noted(scope: Scope, receive: Receive, send: Send) -> None:
        let_in.append(scope["method"])
        await inner(scope, receive, send)

    counted = Outcomes(LoadShedding(noted, admission=parts.admission), metrics=parts.metrics)
    go_on.set()
    async with open_acceptor(ReplyHeaders(counted, ids=parts.ids), folder, limits=limits, parts=parts) as acceptor:
        yield Server(parts, acceptor.address, go_on, let_in)


def statuses(answers: Sequence[Answer]) -> list[int]:
    """Return their statuses."""
    return [answer.status for answer in answers]


def test_a_write_without_a_place_gets_the_problem(tmp_path: Path) -> None:
    """A refused write gets the code, the time to come again, and an id that is the client's own if it gave one."""

    async def scenario() -> tuple[list[Answer], float]:
        async with serving(tmp_path, taken=PLACES) as server:
            return await server.answers(WRITE + BODY, WRITE + b"x-request-id: mine\r\n" + BODY), server.refused()

    (first, second), counted = asyncio.run(scenario())

    problem = json.loads(first.body)
    assert (503, "overloaded", 503) == (first.status, problem["code"], problem["status"])
    assert ("1", "application/problem+json") == (first.headers["retry-after"], first.headers["content-type"])
    assert problem["request_id"] == first.headers["x-request-id"]
    assert f"{PLACES} requests" in problem["detail"]
    assert "mine" == second.headers["x-request-id"] == json.loads(second.body)["request_id"]
    assert 2 == counted


@pytest.mark.parametrize("body", [BODY, CHUNKED, b"\r\n"], ids=["length", "chunks", "none"])
def test_a_refused_connection_is_kept(body: bytes, tmp_path: Path) -> None:
    """A refused connection drops the rest of its body, and the next request on it is answered."""

    async def scenario() -> list[Answer]:
        async with serving(tmp_path, taken=PLACES) as server:
            reader, writer = await server.connected()
            writer.write(WRITE + body)
            refused = [await answer_of(reader)]
            writer.write(READ)
            refused.append(await answer_of(reader))
            server.parts.admission.taken = 0
            writer.write(WRITE + BODY)
            answered = await answer_of(reader)
            writer.close()
            return [*refused, answered]

    early, late, answered = asyncio.run(scenario())

    assert [503, 503, 200] == statuses([early, late, answered])  # a read got as far as the gate
    assert b"hello" == answered.body


@pytest.mark.parametrize("line", [b"connection: close\r\n", b""], ids=["asked to", "old"])
def test_a_connection_that_is_for_one_request_is_closed(line: bytes, tmp_path: Path) -> None:
    """A refused connection for a single request is closed, as after every other reply."""
    head = WRITE if line else WRITE.replace(b"1.1", b"1.0")

    async def scenario() -> tuple[Answer, bytes]:
        async with serving(tmp_path, taken=PLACES) as server:
            reader, writer = await server.connected()
            writer.write(head + line + BODY)
            answer = await answer_of(reader)
            rest = await asyncio.wait_for(reader.read(-1), LIMIT_S)
            writer.close()
            return answer, rest

    answer, rest = asyncio.run(scenario())

    assert (503, "close", b"") == (answer.status, answer.headers["connection"], rest)


@pytest.mark.parametrize(
    ("request_head", "taken"),
    [
        (READ, PLACES),
        (b"POST /sign-in HTTP/1.1\r\n" + BODY, PLACES),
        (WRITE + b"expect: 100-continue\r\n" + BODY, PLACES),
        (WRITE + BODY, PLACES - 1),
    ],
    ids=["reads", "is for people", "waits to be asked for its body", "has a place"],
)
def test_all_else_goes_its_way(request_head: bytes, taken: int, tmp_path: Path) -> None:
    """Other requests reach the application or its gate."""

    async def scenario() -> tuple[int, int]:
        async with serving(tmp_path, taken=taken) as server:
            (answer,) = await server.answers(request_head)
            return answer.status, len(server.let_in)

    assert (200 if taken < PLACES else 503, 1) == asyncio.run(scenario())


def test_of_a_crowd_as_many_get_in_as_there_are_places(tmp_path: Path) -> None:
    """All are read before one of them has its place; the others are refused early, none at the gate."""

    async def scenario() -> tuple[list[Answer], float, int]:
        async with serving(tmp_path, taken=0) as server:
            server.go_on.clear()
            connections = [await server.connected() for _ in range(CROWD)]
            for _, writer in connections:
                writer.write(WRITE + BODY)
            pending = [asyncio.ensure_future(answer_of(reader)) for reader, _ in connections]
            while sum(task.done() for task in pending) < CROWD - PLACES:
                await asyncio.wait([task for task in pending if not task.done()], return_when="FIRST_COMPLETED")
            server.go_on.set()
            answers = await asyncio.gather(*pending)
            for _, writer in connections:
                writer.close()
            return answers, server.refused(), len(server.let_in)

    answers, refused, let_in = asyncio.run(scenario())

    assert PLACES * [200] + (CROWD - PLACES) * [503] == sorted(statuses(answers))
    assert (CROWD - PLACES, PLACES) == (refused, let_in)


def test_heads_without_bodies_keep_no_client_out(tmp_path: Path) -> None:
    """Heads alone take no place."""

    async def scenario() -> list[Answer]:
        async with serving(tmp_path, taken=0) as server:
            connections = [await server.connected() for _ in range(CROWD)]
            for reader, writer in connections:
                writer.write(WRITE + b"expect: 100-continue\r\ncontent-length: 5\r\n\r\n")
                assert await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), LIMIT_S) == CONTINUE
            answers = await server.answers(READ, WRITE + BODY)
            for _, writer in connections:
                writer.close()
            return answers

    assert [200, 200] == statuses(asyncio.run(scenario()))


def test_replies_come_in_the_order_of_their_requests(tmp_path: Path) -> None:
    """A write that follows another one on its connection is not refused before that one is answered."""

    async def scenario() -> list[Answer]:
        async with serving(tmp_path, taken=PLACES - 1) as server:
            server.go_on.clear()
            reader, writer = await server.connected()
            writer.write(WRITE + BODY + WRITE + BODY)
            assert [503] == statuses(await server.answers(WRITE + BODY))  # the first one has the last place
            server.go_on.set()
            answers = [await answer_of(reader), await answer_of(reader)]
            writer.close()
            return answers

    assert [200, 200] == statuses(asyncio.run(scenario()))


@pytest.mark.parametrize("parts", [(WRITE + BODY + WRITE + BODY,), (WRITE + BODY[:-2], BODY[-2:] + READ)], ids=str)
def test_a_request_that_follows_a_refused_one_at_once_is_answered(parts: Sequence[bytes], tmp_path: Path) -> None:
    """The rest of a refused body is no request, and the request behind it is one."""

    async def scenario() -> list[Answer]:
        async with serving(tmp_path, taken=PLACES) as server:
            reader, writer = await server.connected()
            first, *others = parts
            writer.write(first)
            answers = [await answer_of(reader)]
            for part in others:
                writer.write(part)
            answers.append(await answer_of(reader))
            writer.close()
            return answers

    assert [503, 503] == statuses(asyncio.run(scenario()))


def test_a_refused_connection_that_stays_silent_is_closed(tmp_path: Path) -> None:
    """The connection is closed after as long as any other."""

    async def scenario() -> bytes:
        async with serving(tmp_path, taken=PLACES, limits=ConnectionLimits(10, 600.0, idle_s=0.0)) as server:
            reader, writer = await server.connected()
            writer.write(WRITE + BODY)
            everything = await asyncio.wait_for(reader.read(-1), LIMIT_S)
            writer.close()
            return everything

    assert asyncio.run(scenario()).startswith(b"HTTP/1.1 503 ")
