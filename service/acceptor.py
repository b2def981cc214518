# SPDX-License-Identifier: Apache-2.0
"""The acceptor: takes connections off the listening socket, so that their number is bounded before any other work.

An event loop's own server accepts without end, until the process has no descriptor left, and its protocols hear of a
connection only once TLS is agreed on. `OpenConnections` decides which ones stay; closed ones are counted, and a flood
of them is in the log every few seconds while it goes on.
"""

import asyncio
import errno
import socket
import sys
from collections import Counter
from typing import Any

import structlog
import uvicorn

from .api.metrics import UNKNOWN_ROUTE, Metrics
from .api.refusals import HeadRefusedError
from .api.request_ids import IdSource
from .connection import Connection, Headers, head_refusal
from .open_connections import OpenConnections, Reason

ACCEPTED_AT_ONCE = 64
"""Connections accepted before anything else gets its turn."""
SWEEP_S = 1.0
"""Seconds between looks for connections that are overdue."""
LOGGED_EVERY_SWEEPS = 10
"""Sweeps between two log lines on a flood; the first line comes at once."""
TLS_SHUTDOWN_S = 2.0
"""Seconds for the client's part in ending TLS; a service that ends waits for it."""
RETRY_S = 0.1
"""Seconds until accepting is tried again when the process, or the system, has no descriptor left."""
OUT_OF_FILES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Acceptor:
    """Accepts connections on a listening socket; used from the event loop alone."""

    def __init__(self, listener: socket.socket, places: OpenConnections, metrics: Metrics, ids: IdSource) -> None:
        """Take a socket that listens already; accepting begins with `open`."""
        self._listener = listener
        self._places = places
        self._metrics = metrics
        self._ids = ids
        self._server: uvicorn.Server | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._sweeping: asyncio.Task[None] | None = None
        self._opening: set[asyncio.Task[Any]] = set()
        self._unlogged: Counter[str] = Counter()
        self._silent_sweeps = 0

    def open(self, server: uvicorn.Server) -> None:
        """Begin to accept; `server` answers, by TLS if its configuration has certificates."""
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._listener.setblocking(False)
        self._metrics.watch_connections(self._places, [reason.value for reason in Reason])
        self._sweeping = self._loop.create_task(self._sweep())
        self._loop.add_reader(self._listener.fileno(), self._accept)

    def close(self) -> None:
        """Accept no more; connections that are open stay so, those that were about to open do not."""
        if self._loop is None:
            return
        self._loop.remove_reader(self._listener.fileno())
        self._listener.close()
        for waiting in (self._retry, self._sweeping, *self._opening):
            if waiting is not None:
                waiting.cancel()
        self._loop = None

    def _accept(self) -> None:
        """Accept the connections that wait; one that is gone already is none."""
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                accepted, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno in OUT_OF_FILES:
                    self._wait_for_files(error)
                    return
                continue
            self._take(accepted)

    def _take(self, accepted: socket.socket) -> None:
        assert self._loop is not None
        assert self._server is not None
        accepted.setblocking(False)
        self._metrics.connections_accepted.inc()
        connection = Connection(self._server, self._places, self._note, self._refuse_head)
        self._places.admit(connection)
        task = self._loop.create_task(self._open_one(connection, accepted))
        connection.opened_by(task)
        self._opening.add(task)
        task.add_done_callback(lambda done: self._opened(done, connection, accepted))

    async def _open_one(self, connection: Connection, accepted: socket.socket) -> None:
        assert self._loop is not None
        assert self._server is not None
        tls = self._server.config.ssl
        limits: dict[str, Any] = {}
        if tls is not None:
            limits["ssl_handshake_timeout"] = self._places.limits.head_s
            if sys.version_info >= (3, 11):
                limits["ssl_shutdown_timeout"] = TLS_SHUTDOWN_S
        await self._loop.connect_accepted_socket(lambda: connection, accepted, ssl=tls, **limits)

    def _opened(self, task: "asyncio.Task[Any]", connection: Connection, accepted: socket.socket) -> None:
        """Clean up after a client that went away, or was made to, before the connection was there."""
        self._opening.discard(task)
        if task.cancelled() or task.exception() is not None:
            self._places.remove(connection)
            accepted.close()

    def _wait_for_files(self, error: OSError) -> None:
        """Close the stranger that is first to go, and accept again in a moment."""
        assert self._loop is not None
        has_room_soon = self._places.displace_stranger()
        structlog.get_logger().warning(
            "connections_not_accepted", detail=error.strerror, open=len(self._places), closed_one=has_room_soon
        )
        self._loop.remove_reader(self._listener.fileno())
        self._retry = self._loop.call_later(RETRY_S, self._accept_again)

    def _accept_again(self) -> None:
        if self._loop is not None:
            self._loop.add_reader(self._listener.fileno(), self._accept)

    def _refuse_head(self, headers: Headers) -> bytes:
        """Count the refusal of a head that is too large, whose method may not be known, and return the reply."""
        self._metrics.answered("", UNKNOWN_ROUTE, HeadRefusedError.status, 0.0)
        return head_refusal(self._ids.id_for(headers))

    def _note(self, reason: Reason) -> None:
        self._metrics.connections_closed.labels(reason.value).inc()
        if reason is not Reason.IDLE:
            self._unlogged[reason.value] += 1

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            self._places.close_overdue()
            self._log()

    def _log(self) -> None:
        """Write how many connections were closed: at once when that begins, then now and then."""
        self._silent_sweeps = max(0, self._silent_sweeps - 1)
        if not self._unlogged or self._silent_sweeps:
            return
        structlog.get_logger().warning(
            "connections_closed",
            **self._unlogged,
            open=len(self._places),
            connections_max=self._places.limits.connections_max,
            detail="the longest without a whole request head goes first; see docs/reference/service.md, Connections",
        )
        self._unlogged.clear()
        self._silent_sweeps = LOGGED_EVERY_SWEEPS
