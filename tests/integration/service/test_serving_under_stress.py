# SPDX-License-Identifier: Apache-2.0
"""The service under overload, with misbehaving clients, and when it is asked to end."""

import json
import os
import re
import signal
import socket
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.contract.service.requests import STUDY_BODY, UUIDS, result_body
from tests.integration.service.server_process import END_S, ServerProcess, serving
from tests.waiting import wait_until

CLIENTS = 24
BATCH = 400
BATCHES_UNREAD = 60
"""Batches whose events take 16 MB for two listeners, several times the capacity of sockets."""
MEMORY_OF_TWO = 8 << 20


@pytest.fixture
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ServerProcess]:
    """A service with few places; a test may ask for other variables besides."""
    variables = {
        "RINGTUNE_SERVICE_REQUESTS_MAX": "2",
        "RINGTUNE_SERVICE_EVENTS_CLIENTS_MAX": "2",
        "RINGTUNE_SERVICE_EVENTS_HEARTBEAT_S": "1",
        **getattr(request, "param", {}),
    }
    with serving(tmp_path, variables=variables) as process:
        yield process


def new_study(server: ServerProcess) -> str:
    """Create the study and return its id."""
    study_id: str = server.client.post("/v1/studies", json=STUDY_BODY).json()["id"]
    return study_id


def batch_of(job: int) -> dict[str, Any]:
    """Return a batch of one job's results."""
    job_id = f"00000000-0000-4000-9000-{job:012x}"
    return {
        "results": [
            {**result_body(job_id), "trial_id": f"00000000-0000-4000-{0xA000 + job:04x}-{number:012x}"}
            for number in range(BATCH)
        ]
    }


def raw(server: ServerProcess) -> socket.socket:
    """Return a connection, for requests that no well-behaved client sends."""
    return socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), timeout=END_S)


def read_all(connection: socket.socket) -> bytes:
    """Return everything until the other side closes."""
    parts = []
    while part := connection.recv(65536):
        parts.append(part)
    return b"".join(parts)


def head_of(study_id: str, length: int, *more: str) -> bytes:
    """Return the head of a batch."""
    lines = (
        f"POST /v1/studies/{study_id}/results HTTP/1.1",
        "Host: localhost",
        "Content-Type: application/json",
        f"Content-Length: {length}",
        *more,
        "",
        "",
    )
    return "\r\n".join(lines).encode()


def test_too_much_is_refused_at_once_and_accepted_work_is_stored(server: ServerProcess) -> None:
    """Only 200, or 503 with Retry-After; health is answered meanwhile; every batch that was taken is there."""
    study_id = new_study(server)

    def send(job: int) -> httpx.Response:
        with httpx.Client(base_url=server.url, timeout=60) as client:
            return client.post(f"/v1/studies/{study_id}/results", json=batch_of(job))

    with ThreadPoolExecutor(CLIENTS) as pool:
        replies = [pool.submit(send, job) for job in range(CLIENTS)]
        health = [server.client.get("/healthz").status_code for _ in range(5)]
        finished = [reply.result() for reply in replies]

    statuses = Counter(reply.status_code for reply in finished)
    assert {200, 503} == set(statuses), statuses
    assert {200} == set(health)
    assert {"1"} == {reply.headers["retry-after"] for reply in finished if reply.status_code == 503}
    exported = server.client.get("/v1/export").text
    assert statuses[200] * BATCH == exported.count('"type":"result"')


def test_accepted_work_is_finished_before_the_end(server: ServerProcess) -> None:
    """A request whose body is still on its way when SIGTERM comes is answered, and stored."""
    study_id = new_study(server)
    body = json.dumps(batch_of(0)).encode()

    with raw(server) as connection:
        connection.sendall(head_of(study_id, len(body), "Expect: 100-continue"))
        assert connection.recv(4096).startswith(b"HTTP/1.1 100")  # it has begun to read the request
        connection.sendall(body[:1000])
        server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: refuses(server), END_S)
        connection.sendall(body[1000:])
        reply = read_all(connection)
        code = server.process.wait(END_S)

    assert reply.startswith(b"HTTP/1.1 200 OK")
    assert BATCH == reply.count(b'"status":"new"')
    assert 0 == code


def refuses(server: ServerProcess) -> bool:
    """Return whether the port is closed."""
    try:
        raw(server).close()
    except ConnectionError:
        return True
    return False


@pytest.mark.parametrize("server", [{"RINGTUNE_SERVICE_BODY_TIMEOUT_S": "1"}], indirect=True, ids=["short"])
def test_a_body_that_trickles_or_is_larger_than_it_says_is_cut_off(server: ServerProcess) -> None:
    """A body with or without Content-Length ends in 408 or 413, and the connection is closed."""
    with raw(server) as slow:
        slow.sendall(head_of("0" * 32, 1000) + b"{")
        assert read_all(slow).startswith(b"HTTP/1.1 408")
    with raw(server) as large:
        large.sendall(
            b"POST /v1/studies HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
        for _ in range(17):
            large.sendall(chunk)
        large.sendall(b"0\r\n\r\n")
        assert read_all(large).startswith(b"HTTP/1.1 413")
    assert 200 == server.client.get("/readyz").status_code


def next_frame(lines: Iterator[str]) -> dict[str, str]:
    """Return the fields of the next event; a comment has no name."""
    found = (line.partition(": ") for line in iter(lines.__next__, ""))
    return {name: value for name, _, value in found}


def test_events_are_followed_by_a_bounded_number_of_clients(server: ServerProcess) -> None:
    """A result that is stored comes as an event; signs of life between; resumed where it ended; over at the end."""
    study_id = new_study(server)
    place = f"/v1/studies/{study_id}/trials/{{}}/result"

    with httpx.Client(base_url=server.url, timeout=END_S) as other, other.stream("GET", "/v1/events") as first:
        lines = first.iter_lines()
        assert {"retry": "3000", "id": "0"} == next_frame(lines)
        server.client.put(place.format(UUIDS[0]), json=result_body(UUIDS[1]))
        frame = next(found for found in iter(lambda: next_frame(lines), None) if "event" in found)
        event = json.loads(frame["data"])
        assert ("result", str(event["number"])) == (frame["event"], frame["id"])
        assert (study_id, UUIDS[0], "new") == (event["study_id"], event["trial_id"], event["status"])
        assert {"": "alive"} == next_frame(lines)

        headers = {"Last-Event-ID": str(event["number"] - 1)}
        with other.stream("GET", "/v1/events", headers=headers) as second:
            replayed = second.iter_lines()
            assert {"retry": "3000", "id": headers["Last-Event-ID"]} == next_frame(replayed)
            assert frame["id"] == next_frame(replayed)["id"]
            with server.client.stream("GET", "/v1/events") as refused:
                assert (503, "30") == (refused.status_code, refused.headers["retry-after"])
            server.process.send_signal(signal.SIGTERM)
            assert 0 == server.process.wait(END_S)


def resident_bytes(process_id: int) -> int:
    """Return the memory that a process has."""
    pages = int(Path(f"/proc/{process_id}/statm").read_text(encoding="utf-8").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def silent_listener(server: ServerProcess) -> socket.socket:
    """Return a connection that follows all events from the first one, and reads none of them once it has its place."""
    silent = socket.socket()
    silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    silent.connect(("127.0.0.1", int(server.url.rpartition(":")[2])))
    silent.sendall(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\nLast-Event-ID: 0\r\n\r\n")
    assert b"HTTP/1.1 200" == silent.recv(12)
    return silent


@pytest.mark.parametrize("server", [{"RINGTUNE_SERVICE_EVENTS_HEARTBEAT_S": "3"}], indirect=True, ids=["patient"])
def test_a_listener_that_does_not_read_holds_neither_memory_nor_its_place(server: ServerProcess) -> None:
    """Megabytes of events wait in the database, not in the service; both places are free again after a while."""
    study_id = new_study(server)
    for job in range(BATCHES_UNREAD):
        assert 200 == server.client.post(f"/v1/studies/{study_id}/results", json=batch_of(job)).status_code
    with server.client.stream("GET", "/v1/events", headers={"Last-Event-ID": "0"}) as reader:
        assert f"id: {BATCH}" in reader.iter_lines()  # the cost of the first listener alone is no growth
    wait_until(lambda: listeners(server) == 0, END_S)
    before = resident_bytes(server.process.pid)
    memory: list[int] = []

    def are_dropped() -> bool:
        memory.append(resident_bytes(server.process.pid))
        return listeners(server) == 0

    with silent_listener(server), silent_listener(server):
        assert 2 == listeners(server)
        wait_until(are_dropped, END_S)

    assert max(memory) - before < MEMORY_OF_TWO


def listeners(server: ServerProcess) -> int:
    """Return the number of clients that hold a place."""
    found = re.search(r"^ringtune_events_listeners ([0-9.]+)", server.client.get("/metrics").text, re.MULTILINE)
    assert found is not None
    return int(float(found[1]))
