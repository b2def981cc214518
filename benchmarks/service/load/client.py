# SPDX-License-Identifier: Apache-2.0
"""Client process of a load: prepared requests over open sockets, one request at a time on each.

httpx needs about as much processor time for a request as the service does; this client needs some tens of microseconds.
It knows HTTP/1.1 with Content-Length, the form of the service's replies.
"""

import asyncio
import json
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import uvloop

HEAD_END = b"\r\n\r\n"
LENGTH = b"content-length:"
RETRY_AFTER = b"\r\nretry-after:"
LOST = 0
"""The status of a request whose connection was closed."""
UNSENT = -1
"""The status of a request for which no connection was free when it was due."""


class Reply(NamedTuple):
    """Reply of the service; the status is `LOST` where the connection was closed."""

    status: int
    head: bytes
    body: bytes


@dataclass
class Observed:
    """Outcomes of the requests of one run.

    Attributes:
        elapsed_s: Duration of the run, seconds.
        latencies_s: Latency of each request that was answered 2xx, since it was due where it had a time.
        lateness_s: Delay of the client, for each request that had a time.
        statuses: Number of replies by status.
        without_retry_after: Refusals (429, 503) that do not say when to come again.
    """

    elapsed_s: float = 0.0
    latencies_s: list[float] = field(default_factory=list)
    lateness_s: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    without_retry_after: int = 0

    @property
    def good_per_s(self) -> float:
        """Requests answered 2xx, per second."""
        return len(self.latencies_s) / self.elapsed_s

    def note(self, status: int, head: bytes, latency_s: float) -> None:
        """Count one reply."""
        self.statuses[status] += 1
        if 200 <= status < 300:
            self.latencies_s.append(latency_s)
        elif status in {429, 503} and RETRY_AFTER not in head:
            self.without_retry_after += 1


class ClientConnection(asyncio.Protocol):
    """One socket, one request at a time."""

    def __init__(self) -> None:
        """Wait to be connected."""
        self._transport: asyncio.WriteTransport | None = None
        self._buffer = b""
        self._answer: asyncio.Future[Reply] | None = None

    @property
    def is_open(self) -> bool:
        """True while it can carry requests."""
        return self._transport is not None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.WriteTransport", transport)  # uvloop's derives from none

    def connection_lost(self, exc: Exception | None) -> None:
        """End; the last request is lost."""
        del exc
        self._transport = None
        self._finish(Reply(LOST, b"", b""))

    def data_received(self, data: bytes) -> None:
        """Take a part of a reply."""
        self._buffer += data
        end = self._buffer.find(HEAD_END)
        if end < 0:
            return
        head = self._buffer[:end].lower()
        length = int(head.partition(LENGTH)[2].partition(b"\r\n")[0])
        body = self._buffer[end + len(HEAD_END) :]
        if len(body) >= length:
            self._buffer = b""
            self._finish(Reply(int(head[9:12]), head, body))

    async def send(self, request: bytes) -> Reply:
        """Send a request and return its reply."""
        if self._transport is None:
            return Reply(LOST, b"", b"")
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._answer

    def close(self) -> None:
        """Close."""
        if self._transport is not None:
            self._transport.close()

    def _finish(self, reply: Reply) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(reply)


@dataclass(frozen=True)
class RequestLoad:
    """Load on the service.

    Attributes:
        requests: Gives the next one.
        connections: Maximum number of requests at once.
        seconds: Duration of the load.
        rate_per_s: Offered rate, independent of the replies; None sends each connection's next request after its reply.
    """

    requests: Callable[[], bytes]
    connections: int
    seconds: float
    rate_per_s: float | None = None


def drive(port: int, load: RequestLoad) -> Observed:
    """Put a load on the service at a port of loopback."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_driven(port, load))


def request(method: str, path: str, body: Any = None) -> bytes:
    """Return a request's bytes."""
    content = b"" if body is None else json.dumps(body, separators=(",", ":")).encode()
    head = f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n"
    if content:
        head += f"content-type: application/json\r\ncontent-length: {len(content)}\r\n"
    return head.encode() + b"\r\n" + content


def cycled(requests: Sequence[bytes]) -> Callable[[], bytes]:
    """Return a function that gives one request after the other, without end."""
    endless: Iterator[bytes] = (item for _ in iter(int, 1) for item in requests)
    return endless.__next__


async def _driven(port: int, load: RequestLoad) -> Observed:
    loop = asyncio.get_running_loop()
    pairs = [await loop.create_connection(ClientConnection, "127.0.0.1", port) for _ in range(load.connections)]
    connections = [connection for _, connection in pairs]
    observed = Observed()
    begun_s = time.perf_counter()
    if load.rate_per_s is None:
        await asyncio.gather(*(_closed_loop(connection, load, begun_s, observed) for connection in connections))
    else:
        await _open_loop(connections, load, load.rate_per_s, begun_s, observed)
    observed.elapsed_s = time.perf_counter() - begun_s
    for connection in connections:
        connection.close()
    return observed


async def _closed_loop(connection: ClientConnection, load: RequestLoad, begun_s: float, observed: Observed) -> None:
    sent_s = time.perf_counter()
    while sent_s - begun_s < load.seconds and connection.is_open:
        reply = await connection.send(load.requests())
        now_s = time.perf_counter()
        observed.note(reply.status, reply.head, now_s - sent_s)
        sent_s = now_s


async def _open_loop(
    connections: Sequence[ClientConnection], load: RequestLoad, rate_per_s: float, begun_s: float, observed: Observed
) -> None:
    idle = deque(connections)
    tasks: set[asyncio.Task[None]] = set()
    for number in range(round(load.seconds * rate_per_s)):
        due_s = begun_s + number / rate_per_s
        if (ahead_s := due_s - time.perf_counter()) > 0:
            await asyncio.sleep(ahead_s)
        elif number % 8 == 0:
            await asyncio.sleep(0)  # replies are read, however late this is
        if not idle:
            observed.statuses[UNSENT] += 1
            continue
        task = asyncio.ensure_future(_one(idle.popleft(), load.requests(), due_s, idle, observed))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)


async def _one(
    connection: ClientConnection, wanted: bytes, due_s: float, idle: deque[ClientConnection], observed: Observed
) -> None:
    observed.lateness_s.append(time.perf_counter() - due_s)
    reply = await connection.send(wanted)
    observed.note(reply.status, reply.head, time.perf_counter() - due_s)
    if connection.is_open:
        idle.append(connection)
