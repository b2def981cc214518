# SPDX-License-Identifier: Apache-2.0
"""The service's acceptor before any application, in this process: for tests of connections."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import uvicorn
from starlette.types import ASGIApp

from ringtune.service.acceptor import Acceptor
from ringtune.service.api.dependencies import AppState
from ringtune.service.open_connections import ConnectionLimits, OpenConnections
from tests.contract.service.applications import application

Address: TypeAlias = tuple[str, int]
PATIENT = ConnectionLimits(connections_max=100, head_s=600.0, idle_s=600.0)


@dataclass
class OpenAcceptor:
    """An acceptor that accepts.

    Attributes:
        parts: Parts of an application without callers: a test fills its places.
        places: The connections' places.
        address: The address where it listens.
    """

    parts: AppState
    places: OpenConnections
    address: Address

    async def connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return a connection."""
        return await asyncio.open_connection(*self.address)

    def counted(self, name: str, **labels: str) -> float:
        """Return a figure of the metrics, 0 where there is none yet."""
        return self.parts.metrics.registry.get_sample_value(name, labels) or 0.0


@asynccontextmanager
async def open_acceptor(
    app: ASGIApp, folder: Path, *, limits: ConnectionLimits = PATIENT, parts: AppState | None = None
) -> AsyncIterator[OpenAcceptor]:
    """Yield an acceptor behind which `app` answers."""
    known: AppState = parts or application(folder).state.service_state
    config = uvicorn.Config(app, log_config=None, lifespan="off", http="httptools", timeout_keep_alive=3600)
    config.load()
    places = OpenConnections(limits, time.monotonic)
    listener = socket.create_server(("127.0.0.1", 0))
    acceptor = Acceptor(listener, places, known.metrics, known.ids)
    address: Address = listener.getsockname()
    acceptor.open(uvicorn.Server(config))
    try:
        yield OpenAcceptor(known, places, address)
    finally:
        acceptor.close()
