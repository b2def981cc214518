# SPDX-License-Identifier: Apache-2.0
"""The HTTP server of a job's metrics, with clients that behave and clients that do not."""

import http.client
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from ringtune.metrics import server as server_module
from ringtune.metrics.server import MAX_CONNECTIONS, MetricsServer
from ringtune.system.listen_address import ListenAddress

ANY = ListenAddress("127.0.0.1", 0)
LIMIT_S = 60.0
LONG_PAGE = b"x" * 32 * 2**20  # more than the buffers of both ends hold


def unheard(text: str) -> None:
    """Fail: no warning was expected."""
    raise AssertionError(text)


@contextmanager
def serving(render: Callable[[], bytes], warn: Callable[[str], None] = unheard) -> Iterator[MetricsServer]:
    """Serve a page while the block runs."""
    server = MetricsServer(ANY, render, warn)
    server.start()
    try:
        yield server
    finally:
        server.close()


def connected(server: MetricsServer) -> socket.socket:
    """Return a connection that has sent no byte yet."""
    return socket.create_connection(("127.0.0.1", server.port), timeout=LIMIT_S)


def get(server: MetricsServer, path: str = "/metrics") -> tuple[int, bytes]:
    """Return status and body."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=LIMIT_S)
    try:
        connection.request("GET", path)
        reply = connection.getresponse()
        return reply.status, reply.read()
    finally:
        connection.close()


def test_the_page_is_made_for_each_who_asks() -> None:
    """No page is made before; queries are ignored; there is no other page."""
    made = iter([b"first", b"second"])

    with serving(lambda: next(made)) as server:
        answers = [get(server), get(server, "/metrics?x=1"), get(server, "/"), get(server, "/metrics/")]

    assert [(200, b"first"), (200, b"second")] == answers[:2]
    assert [404, 404] == [status for status, _ in answers[2:]]


def test_a_port_that_is_taken_is_an_error_of_the_system() -> None:
    """The caller adds the remedy."""
    with serving(lambda: b"") as server, pytest.raises(OSError, match="in use"):
        MetricsServer(ListenAddress("127.0.0.1", server.port), lambda: b"", unheard)


def test_a_port_is_free_again_after_the_end() -> None:
    """A job that starts again has its port, connections of the last one notwithstanding."""
    with serving(lambda: b"before") as first:
        answers = [get(first)]
        port = first.port

    second = MetricsServer(ListenAddress("127.0.0.1", port), lambda: b"after", unheard)
    second.start()
    answers.append(get(second))
    second.close()

    assert [(200, b"before"), (200, b"after")] == answers


def test_a_page_that_fails_is_said_once_and_harms_nobody() -> None:
    """Status 500; the next page may be made again."""
    warnings: list[str] = []
    pages: Iterator[bytes | Exception] = iter([RuntimeError("no ink"), RuntimeError("no ink"), b"fine"])

    def render() -> bytes:
        page = next(pages)
        if isinstance(page, Exception):
            raise page
        return page

    with serving(render, warnings.append) as server:
        statuses = [get(server)[0] for _ in range(3)]

    assert [500, 500, 200] == statuses
    assert ["metrics cannot be shown: RuntimeError('no ink'); training goes on"] == warnings


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no client that is sent away for its own slowness, and all the time for the end."""
    monkeypatch.setattr(server_module._Page, "timeout", None)
    monkeypatch.setattr(server_module, "CLOSE_LIMIT_S", LIMIT_S)


@pytest.mark.usefixtures("patient")
def test_clients_that_say_nothing_keep_nobody_out() -> None:
    """The oldest of the silent clients that fill all connections is sent away when another one comes."""
    with serving(lambda: b"page") as server, ExitStack() as stack:
        silent = [stack.enter_context(connected(server)) for _ in range(MAX_CONNECTIONS)]

        answer = get(server)

        assert (200, b"page") == answer
        assert b"" == silent[0].recv(1)


@pytest.mark.usefixtures("patient")
def test_the_end_does_not_wait_for_who_does_not_read() -> None:
    """A client that asks for much and does not read is cut off."""
    has_begun = threading.Event()

    def render() -> bytes:
        has_begun.set()
        return LONG_PAGE

    with serving(render) as server, connected(server) as client:
        client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        assert has_begun.wait(LIMIT_S)
        begun_s = time.monotonic()
        server.close()
        elapsed_s = time.monotonic() - begun_s
        received = sum(map(len, iter(lambda: client.recv(2**20), b"")))

    assert elapsed_s < LIMIT_S
    assert received < len(LONG_PAGE)


def test_a_server_that_never_started_can_be_closed() -> None:
    """Twice as well."""
    server = MetricsServer(ANY, lambda: b"", unheard)

    server.close()
    server.close()


def test_a_forked_child_neither_serves_nor_ends_what_the_parent_serves() -> None:
    """A forked child has the descriptors closed, and a connection of the parent lives on."""
    with serving(lambda: b"page") as server, connected(server) as client:
        while not server._connections:
            time.sleep(0.01)
        descriptors = [server.socket.fileno(), *(c.fileno() for c in server._connections.values())]
        child = os.fork()
        if child == 0:
            server.abandon_after_fork()
            os._exit(sum(is_open(descriptor) for descriptor in descriptors))
        _, status = os.waitpid(child, 0)
        client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        reply = b"".join(iter(lambda: client.recv(4096), b""))

    assert 2 == len(descriptors)
    assert 0 == os.waitstatus_to_exitcode(status)
    assert reply.endswith(b"page")


def is_open(descriptor: int) -> bool:
    """Return whether a descriptor is one."""
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True
