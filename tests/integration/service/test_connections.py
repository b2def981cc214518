# SPDX-License-Identifier: Apache-2.0
"""Idle connections keep no client out, over real connections to a real service."""

import asyncio
import socket
import ssl
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest
from starlette.types import Receive, Scope, Send

from ringtune.service.descriptors import raise_limit
from ringtune.service.open_connections import ConnectionLimits
from tests.contract.service.applications import bearer
from tests.contract.service.requests import STUDY_BODY, UUIDS, result_body
from tests.integration.service.acceptors import open_acceptor
from tests.integration.service.server_process import END_S, CommandLine, ServerProcess, serving

LIMIT_S = 60.0
CROWD = 1700
"""Connections of each kind: of all three together, the five thousand that once shut the service."""
SILENT, ONE_BYTE, HALF_HEAD = b"", b"G", b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n"
MANY_MAX = 256
FEW_MAX = 16
FAST = {"RINGTUNE_SERVICE_HEAD_TIMEOUT_S": "1"}


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """Return the command line beside the service."""
    return CommandLine(tmp_path, monkeypatch, capsys)


def port_of(server: ServerProcess) -> int:
    """Return where it listens."""
    return int(server.url.rpartition(":")[2])


@contextmanager
def strangers(server: ServerProcess, count: int, sent: bytes = SILENT) -> Iterator[list[socket.socket]]:
    """Yield so many connections that have sent some bytes, and then no more."""
    with ExitStack() as stack:
        links = []
        for _ in range(count):
            links.append(stack.enter_context(socket.create_connection(("127.0.0.1", port_of(server)), END_S)))
            links[-1].sendall(sent)
        yield links


def figure(text: str, name: str) -> float:
    """Return a figure of the metrics."""
    (line,) = (line for line in text.splitlines() if line.startswith(f"{name} "))
    return float(line.rpartition(" ")[2])


def is_closed(link: socket.socket) -> bool:
    """Wait until the other side has closed."""
    link.settimeout(LIMIT_S)
    try:
        return link.recv(4096) == b""
    except ConnectionResetError:
        return True


def is_open_after_another_byte(link: socket.socket) -> bool:
    """Add to a head, and give the other side a moment to close."""
    link.settimeout(0.05)
    try:
        link.sendall(b"x")
        return link.recv(1) != b""
    except TimeoutError:
        return True
    except OSError:
        return False


def log_with(event: str, folder: Path) -> str:
    """Return the service's log once an event is in it, which the next sweep writes."""
    end_s = time.monotonic() + END_S
    while event not in (log := (folder / "stderr.txt").read_text(encoding="utf-8")):
        assert time.monotonic() < end_s, log
        time.sleep(0.05)
    return log


def test_a_crowd_of_idle_and_half_open_connections_keeps_no_client_out(tmp_path: Path, command: CommandLine) -> None:
    """Five thousand of them: health and a job's report are answered on new connections, and the log tells of it."""
    raise_limit()
    secret = command.run("token", "create", "--name", "job", "--scope", "report", "--scope", "read").stdout.split()[-1]
    variables = {"RINGTUNE_SERVICE_CONNECTIONS_MAX": str(MANY_MAX)}
    with serving(tmp_path, variables=variables, headers=bearer(secret)) as server:
        study_id = server.client.post("/v1/studies", json=STUDY_BODY).json()["id"]
        for sent in (SILENT, ONE_BYTE, HALF_HEAD):
            with strangers(server, CROWD, sent), httpx.Client(base_url=server.url, timeout=END_S) as other:
                assert 200 == other.get("/healthz").status_code
                place = f"/v1/studies/{study_id}/trials/{uuid.uuid4()}/result"
                report = other.put(place, json=result_body(UUIDS[0]), headers=bearer(secret))
                assert 201 == report.status_code, report.text
        assert 200 == server.client.get("/readyz").status_code  # its connection is the one from before the crowds
        shown = server.client.get("/metrics").text
        log = log_with("connections_closed", tmp_path)

    assert MANY_MAX == figure(shown, "ringtune_connections_max")
    assert 3 * (CROWD - MANY_MAX) < figure(shown, 'ringtune_connections_closed_total{reason="full"}')
    assert 1 == figure(shown, 'ringtune_connections{who="known"}')
    assert f"connections_max={MANY_MAX}" in log


def test_a_head_that_does_not_come_is_not_waited_for(tmp_path: Path) -> None:
    """Bytes that trickle gain no time; a whole request on such a connection in time is answered."""
    with serving(tmp_path, variables=FAST) as server, strangers(server, 1) as (silent,):
        with strangers(server, 1, HALF_HEAD) as (half,), strangers(server, 1, HALF_HEAD) as (whole,):
            whole.sendall(b"\r\n")
            assert whole.recv(4096).startswith(b"HTTP/1.1 200")
            assert is_closed(silent)
            assert is_closed(half)
        with strangers(server, 1, HALF_HEAD) as (trickling,):
            end_s = time.monotonic() + LIMIT_S
            while is_open_after_another_byte(trickling) and time.monotonic() < end_s:
                pass
            assert time.monotonic() < end_s
        assert 3 <= figure(
            server.client.get("/metrics").text, 'ringtune_connections_closed_total{reason="head_timeout"}'
        )


def test_connections_that_never_agree_on_tls_make_room(tmp_path: Path) -> None:
    """Connections in the TLS handshake count, although they cannot send a request yet, and are closed in time."""
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    arguments = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj /CN=localhost"
    subject = ("-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate))
    subprocess.run(["openssl", *arguments.split(), *subject], check=True, capture_output=True)
    flags = ("--tls-certificate", str(certificate), "--tls-key", str(key))
    variables = {"RINGTUNE_SERVICE_CONNECTIONS_MAX": str(FEW_MAX), "RINGTUNE_SERVICE_HEAD_TIMEOUT_S": "5"}

    trusted = ssl.create_default_context(cafile=str(certificate))
    with serving(tmp_path, *flags, variables=variables, verify=trusted) as server:
        with strangers(server, 4 * FEW_MAX) as links:
            assert 200 == server.client.get("/healthz").status_code
            assert all(is_closed(link) for link in links)
        assert 200 == server.client.get("/healthz").status_code
        assert 0 == server.end()

    assert "Traceback" not in (tmp_path / "stderr.txt").read_text(encoding="utf-8")


def test_an_unread_reply_is_given_up(tmp_path: Path) -> None:
    """The application learns that the client is gone, and the connection is closed."""
    ended = asyncio.Event()

    async def endless(_scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        gone = asyncio.ensure_future(receive())
        while not gone.done() or gone.result()["type"] != "http.disconnect":
            gone = asyncio.ensure_future(receive()) if gone.done() else gone
            await send({"type": "http.response.body", "body": bytes(65536), "more_body": True})
            await asyncio.sleep(0)
        ended.set()

    async def scenario() -> float:
        async with open_acceptor(endless, tmp_path, limits=ConnectionLimits(10, 600.0, unread_s=0.0)) as acceptor:
            link = socket.create_connection(acceptor.address)
            link.sendall(HALF_HEAD + b"\r\n")
            await asyncio.wait_for(ended.wait(), LIMIT_S)
            link.close()
            return acceptor.counted("ringtune_connections_closed_total", reason="unread")

    assert 1 == asyncio.run(scenario())
