# SPDX-License-Identifier: Apache-2.0
"""Serves `/metrics` over HTTP from daemon threads; a function of the caller renders the page.

Whoever calls cannot hold the process: every read and write has a limit, connections are few and the oldest gives way,
and `close` ends them. Python's `http.server.HTTPServer` is not used, for it asks the name server for the host's own
name; nor is `serve_forever`, which wakes up twice a second.
"""

import os
import socket
import socketserver
import threading
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any

from ringtune.system.listen_address import ListenAddress

PATH = "/metrics"
PAGE_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MAX_CONNECTIONS = 8
CLIENT_LIMIT_S = 5.0  # time limit of one read or write
SHORTAGE_PAUSE_S = 1.0  # before the next attempt, where no descriptor is left for a connection
CLOSE_LIMIT_S = 1.0

Render = Callable[[], bytes]
Say = Callable[[str], None]


class MetricsServer(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """A server of one page. `start`, `close` and `abandon_after_fork` belong to the main thread."""

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 16

    def __init__(self, address: ListenAddress, render: Render, warn: Say) -> None:
        """Listen; no client is answered before `start`.

        Args:
            address: Address to listen at; port 0 for any.
            render: Returns the page; called from several threads.
            warn: Told once if that fails.

        Raises:
            OSError: If the port cannot be had.
        """
        self.address_family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        self._render = render
        self._warn = warn
        self._has_warned = False
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._connections: dict[int, socket.socket] = {}
        self._thread = threading.Thread(target=self._run, name="ringtune-metrics", daemon=True)
        super().__init__((address.host, address.port), _Page)

    @property
    def port(self) -> int:
        """Address at which it listens."""
        return int(self.socket.getsockname()[1])

    def start(self) -> None:
        """Answer from now on; where no thread can be had, the port is given back.

        Raises:
            RuntimeError: If the system starts no more threads.
        """
        try:
            self._thread.start()
        except RuntimeError:
            self.server_close()
            raise

    def close(self) -> None:
        """Give the port back and end all connections, also those of clients that do not read. Never raises."""
        self._closing.set()
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)  # wakes the thread
        with self._lock:
            for connection in self._connections.values():
                _end(connection)
        if self._thread.is_alive():
            self._thread.join(CLOSE_LIMIT_S)
        self.server_close()

    def abandon_after_fork(self) -> None:
        """In a forked child: close the descriptors, and take no lock, for its owner may not exist here."""
        for connection in (self.socket, *self._connections.values()):
            with suppress(OSError):
                os.close(connection.detach())  # `shutdown` would end the parent's as well

    def page(self) -> tuple[HTTPStatus, bytes]:
        """Return the page, or that it failed, which is said once."""
        try:
            return HTTPStatus.OK, self._render()
        except Exception as error:  # noqa: BLE001  (metrics never fail training)
            if not self._has_warned:
                self._has_warned = True
                self._warn(f"metrics cannot be shown: {error!r}; training goes on")
            return HTTPStatus.INTERNAL_SERVER_ERROR, b"metrics cannot be shown\n"

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept a connection; see `socketserver`."""
        try:
            connection, client = self.socket.accept()
        except OSError:
            self._closing.wait(SHORTAGE_PAUSE_S)
            raise
        return connection, client

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread of its own; where there are too many, the oldest connection ends."""
        with self._lock:
            for oldest in list(self._connections.values())[: 1 - MAX_CONNECTIONS]:
                _end(oldest)
            self._connections[id(request)] = request
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """End a connection; see `socketserver`."""
        with self._lock:
            self._connections.pop(id(request), None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that went away or were too slow."""

    def _run(self) -> None:
        while not self._closing.is_set():
            self.handle_request()


class _Page(BaseHTTPRequestHandler):
    """Answers one request, by HTTP/1.0."""

    timeout = CLIENT_LIMIT_S
    server: MetricsServer

    def do_GET(self) -> None:
        """Answer with the page, or that there is no other."""
        if self.path.partition("?")[0] == PATH:
            self._reply(*self.server.page())
        else:
            self._reply(HTTPStatus.NOT_FOUND, f"there is {PATH} alone\n".encode())

    def version_string(self) -> str:
        """Name no versions."""
        return "ringtune"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  (named by http.server)
        """Keep requests out of the job's stderr."""

    def _reply(self, status: HTTPStatus, body: bytes) -> None:
        is_page = status is HTTPStatus.OK
        self.send_response(status)
        self.send_header("Content-Type", PAGE_TYPE if is_page else "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _end(connection: socket.socket) -> None:
    """Wake whoever reads or writes there; they close it."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
