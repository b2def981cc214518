# SPDX-License-Identifier: Apache-2.0
"""Servers that break a service's rules: answer never, slowly, wrongly, or with an error. On loopback, in threads."""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from tests.integration.ports import free_port

Handler = Callable[[socket.socket], None]
"""Serves one connection; its end closes it."""


@contextmanager
def serving(handler: Handler, port: int = 0) -> Iterator[str]:
    """Serve each connection in a thread; yield the URL."""
    with socket.create_server(("127.0.0.1", port)) as listener:
        connections: list[socket.socket] = []

        def accept() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    connections.append(connection)
                    threading.Thread(target=serve, args=(connection,), daemon=True).start()

        def serve(connection: socket.socket) -> None:
            with suppress(OSError), connection:
                handler(connection)

        threading.Thread(target=accept, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            for connection in connections:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)


def closed_port() -> str:
    """Return the URL of a port at which no process listens."""
    return f"http://127.0.0.1:{free_port()}"


def read_request(connection: socket.socket) -> tuple[str, bytes] | None:
    """Return the next request's first line and body, None at the end."""
    data = b""
    while b"\r\n\r\n" not in data:
        part = connection.recv(65536)
        if not part:
            return None
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    length = next((int(line.split(":")[1]) for line in lines if line.lower().startswith("content-length:")), 0)
    while len(body) < length:
        body += connection.recv(65536)
    return lines[0], body


def http_reply(body: bytes, status: str = "200 OK", headers: str = "") -> bytes:
    """Return a whole answer."""
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{headers}\r\n".encode() + body


def black_hole(connection: socket.socket) -> None:
    """Accept, read, and never answer."""
    while connection.recv(65536):
        pass


def trickle(reply: bytes, gap_s: float = 1.0) -> Handler:
    """Return a handler that sends a good answer, a byte at a time."""

    def handle(connection: socket.socket) -> None:
        if read_request(connection) is not None:
            for byte in reply:
                connection.sendall(bytes([byte]))
                time.sleep(gap_s)

    return handle


def always(reply: bytes) -> Handler:
    """Return a handler that gives every request one answer."""

    def handle(connection: socket.socket) -> None:
        while read_request(connection) is not None:
            connection.sendall(reply)

    return handle


class Ledger:
    """Stores results as the service does, and may be away; a handler for `serving`.

    Attributes:
        results: Results that were stored, by trial.
        studies: Studies that were announced, in their order.
        jobs: Reports of jobs about themselves, in their order.
        calls: Number of requests.
        failures: Answers to be given instead of doing anything, the next one first.
        loses_replies: Number of requests to process whose reply is lost.
        refuses: The trials that are refused, and every batch that has one of them.
        recommendation: The answer to every request for a start.
        page: Path of every study's page, as a service with pages answers it.
    """

    def __init__(self) -> None:
        self.results: dict[str, dict[str, Any]] = {}
        self.studies: list[dict[str, Any]] = []
        self.jobs: list[dict[str, Any]] = []
        self.calls = 0
        self.failures: list[bytes] = []
        self.loses_replies = 0
        self.refuses: set[str] = set()
        self.recommendation = recommendation_reply({}, source="default")
        self.page: str | None = None

    def __call__(self, connection: socket.socket) -> None:
        """Serve one connection."""
        while (request := read_request(connection)) is not None:
            self.calls += 1
            if self.failures:
                connection.sendall(self.failures.pop(0))
                continue
            reply = self._reply(request[0], request[1])
            if self.loses_replies:
                self.loses_replies -= 1
                return
            connection.sendall(reply)

    def _reply(self, line: str, content: bytes) -> bytes:
        if line.startswith("GET /v1/recommendations?"):
            return http_reply(json.dumps(self.recommendation).encode())
        body = json.loads(content)
        if line.startswith("POST /v1/studies HTTP"):
            self.studies.append(body)
            return http_reply(json.dumps({**study_reply(body), "page": self.page}).encode())
        if line.startswith("PUT "):
            self.jobs.append(body)
            return http_reply(content)
        if {result["trial_id"] for result in body["results"]} & self.refuses:
            return http_reply(b'{"code":"invalid_request","detail":"a bad result"}', "422 Unprocessable Content")
        return http_reply(json.dumps({"items": [self._store(result) for result in body["results"]]}).encode())

    def _store(self, result: dict[str, Any]) -> dict[str, Any]:
        known = self.results.setdefault(result["trial_id"], result)
        status = "conflict" if known != result else "same" if known is not result else "new"
        return {"trial_id": result["trial_id"], "status": status, "reason": None}


def recommendation_reply(config: dict[str, Any], source: str = "exact") -> dict[str, Any]:
    """Return a recommendation as the service answers it."""
    evidence = {"trials": 9, "jobs": 3, "speedup": 0.3, "ci_low": 0.2, "ci_high": 0.4, "age_s": 60.0}
    return {
        "config": config,
        "source": source,
        "target": "ringtune",
        "is_prior": False,
        "standing": "confirmed",
        "evidence": evidence,
    }


def study_reply(body: dict[str, Any]) -> dict[str, Any]:
    """Return a study as the service answers it."""
    names = {"model_name": None, "hardware_name": None, **{k: v for k, v in body.items() if k.endswith("_name")}}
    counts = {"trials": 0, "jobs": 0, "age_s": 0.0}
    return {"id": "ab" * 16, "key": body["key"], "search_space": body["search_space"], **names, **counts}
