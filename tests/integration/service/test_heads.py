# SPDX-License-Identifier: Apache-2.0
"""Bounds on the parts of a request around its body, over real connections; requests within them are answered."""

import asyncio
import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from ringtune.service.connection import HEAD_BYTES_MAX
from tests.integration.service.acceptors import open_acceptor

LIMIT_S = 60.0
FAR_TOO_MUCH = 64 << 20
"""More bytes than anybody would send if the connection was not closed before."""
GET = b"GET / HTTP/1.1\r\nhost: here\r\n"
POST = b"POST / HTTP/1.1\r\nhost: here\r\ntransfer-encoding: chunked\r\n\r\n"
PART = b"10000\r\n" + b"b" * 0x10000 + b"\r\n"


async def count(_scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the number of the body's bytes."""
    size, has_more = 0, True
    while has_more:
        message = await receive()
        size += len(message.get("body", b""))
        has_more = message.get("more_body", False)
    body = b"%d" % size
    headers = [(b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def sent_until_closed(parts: Iterable[bytes], folder: Path) -> tuple[int, bytes]:
    """Send until the server closes; return the number of bytes, and the answer."""
    async with open_acceptor(count, folder) as acceptor:
        reader, writer = await acceptor.connected()
        answer = asyncio.ensure_future(reader.read(-1))
        sent = 0
        for part in parts:
            try:
                writer.write(part)
                await writer.drain()
            except OSError:
                break
            sent += len(part)
            if answer.done() or sent > FAR_TOO_MUCH:
                break
        try:
            return sent, await asyncio.wait_for(answer, LIMIT_S)
        except OSError:  # reset: it was closed on us while we sent
            return sent, b""
        finally:
            writer.close()


def endless(*first: bytes, then: bytes) -> Iterator[bytes]:
    """Yield some parts, and another one for ever."""
    return itertools.chain(first, itertools.repeat(then))


@pytest.mark.parametrize(
    "parts",
    [
        lambda: endless(GET, then=b"x: " + b"a" * 1000 + b"\r\n"),
        lambda: endless(GET, b"x: ", then=b"a" * 1000),
        lambda: endless(GET, b"x", then=b"a" * 1000),
        lambda: endless(b"GET /", then=b"a" * 1000),
        lambda: endless(POST, PART, b"0\r\n", then=b"x: " + b"a" * 1000 + b"\r\n"),
        lambda: endless(POST, PART, b"0\r\nx: ", then=b"a" * 1000),
        lambda: endless(GET, b"\r\n", GET, then=b"y: " + b"a" * 1000 + b"\r\n"),
    ],
    ids=["headers", "value", "name", "address", "trailers", "trailer", "second request"],
)
def test_a_head_without_end_is_cut_off(parts: Any, tmp_path: Path) -> None:
    """A connection is closed during an endless head of any content, also after a body or another request."""
    sent, answer = asyncio.run(sent_until_closed(parts(), tmp_path))

    assert sent < FAR_TOO_MUCH
    assert answer == b"" or b" 431 " in answer


def test_a_head_that_comes_at_once_is_refused_before_it_is_worked_on(tmp_path: Path) -> None:
    """The limit holds for any size of the reads from the connection, and the reply is a problem."""
    _, answer = asyncio.run(sent_until_closed([GET + b"x: a\r\n" * (HEAD_BYTES_MAX // 6) + b"\r\n"], tmp_path))

    assert answer.startswith(b"HTTP/1.1 431 ")
    assert b'"code": "head_too_large"' in answer
    assert answer.count(b"HTTP/1.1") == 1


def test_requests_within_bounds_are_answered(tmp_path: Path) -> None:
    """Large heads one after the other on one connection, a large body in parts, and trailers."""
    head = GET + b"x: " + b"a" * (HEAD_BYTES_MAX - 200) + b"\r\n\r\n"
    body = POST + 40 * PART + b"0\r\nx: trailer\r\n\r\n"

    async def scenario() -> list[bytes]:
        answers = []
        async with open_acceptor(count, tmp_path) as acceptor:
            reader, writer = await acceptor.connected()
            for request in (head, body, head, head):
                writer.write(request)
                answers.append(await asyncio.wait_for(answer_of(reader), LIMIT_S))
            writer.close()
        return answers

    assert [b"0", b"%d" % (40 * 0x10000), b"0", b"0"] == asyncio.run(scenario())


async def answer_of(reader: asyncio.StreamReader) -> bytes:
    """Return the body of the next answer, which must be a success."""
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ")
    size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    return await reader.readexactly(size)
