# SPDX-License-Identifier: Apache-2.0
"""The door: accepts connections itself, so that their number is bounded before anything else is done for them.

An event loop's own server accepts without end, until the process has no descriptor left for anybody. Who may stay is
decided by `OpenConnections`; what is closed is counted, and told in the log every few seconds while it goes on.
"""

import asyncio
import errno
import socket
import ssl
import sys
from collections import Counter
from typing import Any

import structlog

from .api.metrics import Metrics
from .connection import Connection, MakeProtocol
from .load_shedding import Refusals
from .open_connections import OpenConnections, Reason

ACCEPTED_AT_ONCE = 64
"""Connections accepted before anything else gets its turn."""
SWEEP_S = 1.0
"""Between looks for connections that are overdue."""
TOLD_EVERY_SWEEPS = 10
"""A flood is told in the log when it begins, and once in so many sweeps while it lasts."""
TLS_SHUTDOWN_S = 2.0
"""For the client's part in ending TLS; a service that ends waits for it."""
RETRY_S = 0.1
"""Until accepting is tried again when the process, or the system, has no descriptor left."""
OUT_OF_FILES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Door:
    """Accepts connections on a listening socket; used from the event loop alone."""

    def __init__(self, listener: socket.socket, places: OpenConnections, refusals: Refusals, metrics: Metrics) -> None:
        """Take a socket that listens already; nothing is accepted before `open`."""
        self._listener = listener
        self._places = places
        self._refusals = refusals
        self._metrics = metrics
        self._tls: ssl.SSLContext | None = None
        self._make: MakeProtocol | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._sweeping: asyncio.Task[None] | None = None
        self._opening: set[asyncio.Task[Any]] = set()
        self._untold: Counter[str] = Counter()
        self._sweeps_untold = 0

    def open(self, make: MakeProtocol, tls: ssl.SSLContext | None) -> None:
        """Begin to accept.

        Args:
            make: Makes the protocol that answers.
            tls: For HTTPS; None for HTTP.
        """
        self._make, self._tls = make, tls
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
        """Accept what waits; a connection that is gone already is none."""
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
        assert self._make is not None
        accepted.setblocking(False)
        self._metrics.connections_accepted.inc()
        connection = Connection(self._places, self._refusals, self._make, self._note)
        self._places.admit(connection)
        task = self._loop.create_task(self._open_one(connection, accepted))
        connection.opened_by(task)
        self._opening.add(task)
        task.add_done_callback(lambda done: self._opened(done, connection, accepted))

    async def _open_one(self, connection: Connection, accepted: socket.socket) -> None:
        assert self._loop is not None
        limits: dict[str, Any] = {}
        if self._tls is not None:
            limits["ssl_handshake_timeout"] = self._places.limits.head_s
            if sys.version_info >= (3, 11):
                limits["ssl_shutdown_timeout"] = TLS_SHUTDOWN_S
        await self._loop.connect_accepted_socket(lambda: connection, accepted, ssl=self._tls, **limits)

    def _opened(self, task: "asyncio.Task[Any]", connection: Connection, accepted: socket.socket) -> None:
        """Clean up after who went away, or was made to, before the connection was there."""
        self._opening.discard(task)
        if task.cancelled() or task.exception() is not None:
            self._places.remove(connection)
            accepted.close()

    def _wait_for_files(self, error: OSError) -> None:
        """Let the stranger that is first to go make room, and accept again in a moment."""
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

    def _note(self, reason: Reason) -> None:
        self._metrics.connections_closed.labels(reason.value).inc()
        if reason is not Reason.IDLE:
            self._untold[reason.value] += 1

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            self._places.close_overdue()
            self._tell()

    def _tell(self) -> None:
        """Say what was closed: at once when it begins, then once in a while."""
        self._sweeps_untold = max(0, self._sweeps_untold - 1)
        if not self._untold or self._sweeps_untold:
            return
        structlog.get_logger().warning(
            "connections_closed",
            **self._untold,
            open=len(self._places),
            connections_max=self._places.limits.connections_max,
            detail="the longest without a whole request head goes first; see docs/reference/service.md, Connections",
        )
        self._untold.clear()
        self._sweeps_untold = TOLD_EVERY_SWEEPS
