# SPDX-License-Identifier: Apache-2.0
"""Large bodies cost one client's time, not everybody's, and a bounded amount of memory: over real connections."""

import itertools
import json
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.contract.service.requests import RUN_RECORDS, STUDY_BODY
from tests.integration.service.server_process import END_S, ServerProcess, serving

MEMORY_MAX = 200 << 20
LARGE = 30 << 20
JSON = {"content-type": "application/json"}
LINES = {"content-type": "application/x-ndjson"}
AT_ONCE = 32
ANSWERED_MEANWHILE = 20
"""Health checks, one after the other, while one large log is read; a service that reads on its event loop has none."""


class Watch:
    """The most memory that a process had while it was looked at."""

    def __init__(self, server: ServerProcess) -> None:
        """Look at the service, whose memory before does not count."""
        self._status = Path(f"/proc/{server.process.pid}/status")
        (self._status.parent / "clear_refs").write_text("5", encoding="utf-8")
        self._before = self._bytes("VmRSS")

    def growth(self) -> int:
        """Return by how much the memory grew at most, bytes."""
        return self._bytes("VmHWM") - self._before

    def _bytes(self, name: str) -> int:
        (line,) = (line for line in self._status.read_text(encoding="utf-8").splitlines() if line.startswith(name))
        return int(line.split()[1]) << 10


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A service that is warm: it has worked on a body before."""
    with serving(tmp_path_factory.mktemp("service")) as process:
        assert 200 == process.client.post("/v1/runs", json={"records": RUN_RECORDS}).status_code
        yield process


def post(server: ServerProcess, path: str, body: bytes, headers: dict[str, str] = JSON) -> httpx.Response:
    """Send a body on a connection of its own."""
    with httpx.Client(base_url=server.url, timeout=4 * END_S) as client:
        return client.post(path, content=body, headers=headers)


def long_log(size: int) -> bytes:
    """Return a legal log of about so many bytes, of one run."""
    run, sample = RUN_RECORDS
    run_id = str(uuid.uuid4())
    text = json.dumps({**sample, "run_id": run_id, "note": "x" * 500})
    samples = (text.replace('"window": 0', f'"window": {number}') for number in range(size // (len(text) + 6)))
    return f'{{"records":[{json.dumps({**run, "run_id": run_id})},{",".join(samples)}]}}'.encode()


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"[" + b"[]," * (LARGE // 3) + b"1]", 413),
        (b'{"records":[' + b'{"a":0},' * (LARGE // 8) + b"{}]}", 413),
        (b"[" + b"[]," * 1_000_000 + b"1]", 400),
        (b'{"records":[{"a":[' + b"[]," * 1_000_000 + b"1]}]}", 413),
        (b'{"records":[' + b'{"a":[' + b"[]," * 20 + b"1]}," + b'{"a":0},' * 49_000 + b'{"a":1}]}', 422),
        (b'{"records":[' + b'{"a":0},' * 50_001 + b'{"a":1}]}', 422),
        (b'{"records":' + b" " * LARGE + b"[1]}", 422),
        (b'{"records":[{"a":"' + b"x" * LARGE + b'"}]}', 413),
    ],
    ids=["lists", "records", "fewer lists", "one record", "within bounds", "too many records", "spaces", "text"],
)
def test_a_body_of_tiny_values_takes_little_memory(server: ServerProcess, body: bytes, expected: int) -> None:
    """Three of them at once are refused, for their contents; others are answered meanwhile."""
    watch = Watch(server)
    with ThreadPoolExecutor(3) as pool:
        replies = [pool.submit(post, server, "/v1/runs", body) for _ in range(3)]
        health = server.client.get("/healthz").status_code
        statuses = {reply.result().status_code for reply in replies}

    assert ({expected}, 200) == (statuses - {503}, health)
    assert watch.growth() < MEMORY_MAX


def test_a_long_log_is_taken_while_others_are_answered(server: ServerProcess) -> None:
    """Thirty megabytes of one run: stored whole, read once more it adds no row."""
    body = long_log(LARGE)
    samples = body.count(b'"sample"')
    watch = Watch(server)
    done = threading.Event()

    def send() -> httpx.Response:
        try:
            return post(server, "/v1/runs", body)
        finally:
            done.set()

    with ThreadPoolExecutor(1) as pool:
        sent: Future[httpx.Response] = pool.submit(send)
        answered = sum(1 for _ in itertools.takewhile(lambda _: not done.is_set(), healths(server)))
        (first,) = sent.result().json()["runs"]
    (again,) = post(server, "/v1/runs", body).json()["runs"]

    assert (samples, 0) == (first["new"] + first["quarantined"], first["same"]), first
    assert samples == again["same"]
    assert answered > ANSWERED_MEANWHILE
    assert watch.growth() < MEMORY_MAX


def healths(server: ServerProcess) -> Iterator[int]:
    """Yield the statuses of health checks, each after the one before."""
    while True:
        yield server.client.get("/healthz").status_code


@pytest.mark.parametrize(
    ("path", "body", "headers"),
    [
        ("/v1/studies", b"{" + b",".join(b'"a%d":0' % number for number in range(60_000)) + b"}", JSON),
        ("/v1/studies", json.dumps({**STUDY_BODY, "gradient_bytes": ["x"] * 60_000}).encode(), JSON),
        ("/v1/studies", json.dumps({**STUDY_BODY, "gradient_bytes": [-1] * 10_000}).encode(), JSON),
        (
            "/v1/studies/{}/results".format("0" * 32),
            json.dumps({"results": [{"config": {f"a{n}": [] for n in range(60)}} for _ in range(1000)]}).encode(),
            JSON,
        ),
        ("/v1/studies", b"[" + b"[]," * 60_000 + b"[" * 100 + b"]" * 100 + b"]", JSON),
        ("/v1/import", b"\n" * LARGE, LINES),
        ("/v1/import", b'{"a":[' + b"0," * 1_000_000 + b"0]}\n", LINES),
        ("/v1/import", b'{"schema":3,"type":"archive"}\n' + b"[]\n" * 1_000_000, LINES),
    ],
    ids=["names", "wrong sizes", "negative sizes", "configs", "lists", "empty lines", "one line", "lines"],
)
def test_bodies_of_every_route_are_bounded_together(
    server: ServerProcess, path: str, body: bytes, headers: dict[str, str]
) -> None:
    """Many small ones, or a few large ones: all are refused, and others are answered meanwhile."""
    watch = Watch(server)
    count = AT_ONCE if len(body) <= 1 << 20 else 3
    with ThreadPoolExecutor(AT_ONCE) as pool:
        replies = [pool.submit(post, server, path, body, headers) for _ in range(count)]
        health = server.client.get("/healthz").status_code
        statuses = {reply.result().status_code for reply in replies}

    assert statuses <= {400, 413, 422, 503}, statuses
    assert 200 == health
    assert watch.growth() < MEMORY_MAX
