# SPDX-License-Identifier: Apache-2.0
"""The server process: listens, says where, and ends only after accepted work is done."""

import gc
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import structlog
import uvicorn
from fastapi import FastAPI
from sqlalchemy import make_url
from sqlalchemy.exc import DBAPIError

from ringtune.errors import ConfigError, StoreError
from ringtune.tuner.statistics.student_t import student_t_quantile

from .acceptor import Acceptor
from .api.dependencies import AppState
from .api.pages import Pages
from .app import create_app
from .descriptors import connections_for, raise_limit
from .errors import ServiceError
from .logs import configure_logging
from .open_connections import ConnectionLimits, OpenConnections
from .settings import ServiceSettings

BACKLOG = 4096
"""Connections that the kernel keeps until they are accepted; more would have to knock again after a second."""
UVICORN_KEEP_ALIVE_S = 3600
"""Seconds; never reached: `OpenConnections` ends idle connections, and counts them with the others."""
PROBED_AFTER_S, PROBED_EVERY_S, VANISHED_AFTER_S = 30, 10, 60
"""A peer whose machine gives no sign of life: when the kernel begins to ask for one, how often, when it gives up."""
YOUNG_OBJECTS_MAX = 7_000
"""Ten times Python's own number, so that collections of more than the young are as much rarer."""
SWITCH_INTERVAL_S = 0.0005
"""Longest time that a busy thread keeps the interpreter from others, a tenth of Python's own: a request waits for it
several times while a thread works on a large log, 60 ms in all with Python's 5 ms."""


class _Server(uvicorn.Server):
    """Uvicorn behind the acceptor: announces itself, tells lasting replies to end, and does not re-raise the signal."""

    def __init__(
        self, config: uvicorn.Config, state: AppState, acceptor: Acceptor, announce: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._state = state
        self._acceptor = acceptor
        self._announce = announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Announce once requests are answered: those that came before would be a crowd at the first moment."""
        del sockets
        await super().startup([])
        if self.started:
            self._acceptor.open(self)
            self._announce()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to end; a second signal does not wait any longer."""
        del sig, frame
        if self.should_exit:
            self.force_exit = True
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no more, end lasting replies, then wait for the others."""
        self._acceptor.close()
        self._state.ending.set()
        await super().shutdown(sockets)


def serve(settings: ServiceSettings, announce: Callable[[str], None], pages: Pages | None = None) -> None:
    """Serve until SIGTERM or SIGINT, then finish accepted work.

    Args:
        settings: The address to listen on, and the place of the data.
        announce: Takes a line when the service answers.
        pages: For people, at the same address; None for an API alone.

    Raises:
        ConfigError: If the address cannot be used, or is not loopback and no token exists.
        StoreError: If the database cannot be used.
    """
    prepare_data_folder(settings)
    with store_errors():
        app = create_app(settings, pages)
    state: AppState = app.state.service_state
    try:
        with store_errors():
            state.service.migrate()
            _refuse_strangers(settings, state)
        config = _uvicorn_config(app, settings)
        with _listen(settings.host, settings.port) as listener:
            configure_logging(settings.log_level, settings.log_format)
            _load_what_stays()
            sys.setswitchinterval(SWITCH_INTERVAL_S)
            greeting = _greeting(settings, listener.getsockname()[1])
            acceptor = _acceptor(listener, settings, state)
            _Server(config, state, acceptor, lambda: announce(greeting)).run()
    finally:
        state.service.close()


@contextmanager
def store_errors() -> Iterator[None]:
    """Turn the database's errors into a StoreError, for people at a command line."""
    try:
        yield
    except ServiceError as error:
        raise StoreError(str(error)) from error
    except DBAPIError as error:
        reason = str(error.orig).partition("\n")[0]
        raise StoreError(f"the database cannot be used ({reason}); name another, or restore this one") from error


def prepare_data_folder(settings: ServiceSettings) -> None:
    """Make the user's data folder, for this user alone, if the data are to lie there.

    Raises:
        ConfigError: If it cannot be made.
    """
    if settings.database_url is None:
        folder = settings.data_file.parent
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"{folder} cannot be made ({error.strerror}); set RINGTUNE_SERVICE_DATABASE_URL"
            ) from error


def _acceptor(listener: socket.socket, settings: ServiceSettings, state: AppState) -> Acceptor:
    """Return the acceptor, with as many places as the limit on open files allows, which is raised as far as it goes."""
    files = raise_limit()
    limits = ConnectionLimits(connections_for(settings.connections_max, files), settings.head_timeout_s)
    structlog.get_logger().info("connections_bounded", connections_max=limits.connections_max, open_files_max=files)
    return Acceptor(listener, OpenConnections(limits, time.monotonic), state.metrics, state.ids)


def _load_what_stays() -> None:
    """Load the modules of the first request, then have the garbage collector leave the program's own objects alone.

    Either takes 0.1 s, in which no request is answered: scipy's import at the first result, and looking through 150,000
    objects, which a thousand results brought about.
    """
    student_t_quantile(1, 0.5)
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS_MAX, *gc.get_threshold()[1:])


def _refuse_strangers(settings: ServiceSettings, state: AppState) -> None:
    if settings.is_loopback or settings.fixed_tokens:
        return
    if all(token.is_revoked for token in state.service.tokens.list()):
        raise ConfigError(
            f"no token exists, and {settings.host} can be reached from other machines; create one first "
            "(ringtune token create --name NAME --scope admin), or listen on 127.0.0.1"
        )


def _listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens already, so that the port is known and taken before anything is started."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        # asyncio turns Nagle's algorithm off only where the protocol is named; it costs 40 ms for each reply.
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _notice_the_vanished(listener)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        raise ConfigError(
            f"{host} port {port} cannot be listened on ({error.strerror or error}); choose others (--host, --port)"
        ) from error
    return listener


def _notice_the_vanished(listener: socket.socket) -> None:
    """Have the connections that it accepts end when their peer is gone without a word.

    The limits on connections end them, too, unless they are at work.
    """
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, PROBED_AFTER_S)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, PROBED_EVERY_S)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1000 * VANISHED_AFTER_S)


def _uvicorn_config(app: FastAPI, settings: ServiceSettings) -> uvicorn.Config:
    for path in (settings.tls_certificate, settings.tls_key):
        if path is not None and not Path(path).is_file():
            raise ConfigError(f"{path} is no file; give PEM files with --tls-certificate and --tls-key")
    return uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        timeout_keep_alive=UVICORN_KEEP_ALIVE_S,
        timeout_graceful_shutdown=max(1, round(settings.shutdown_s)),
        http="httptools",
        ssl_certfile=settings.tls_certificate,
        ssl_keyfile=None if settings.tls_key is None else str(settings.tls_key),
    )


def data_place(settings: ServiceSettings) -> str:
    """Return where the data is, for people: a file, or a database's name and host; its URL has secrets."""
    url = make_url(settings.effective_database_url)
    if url.get_backend_name() == "sqlite":
        return url.database or "memory"
    return f"{url.get_backend_name()} database {url.database or 'without a name'} on {url.host or 'this machine'}"


def _greeting(settings: ServiceSettings, port: int) -> str:
    kind = "http" if settings.tls_certificate is None else "https"
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    listening = f"ringtune service: listening on {kind}://{host}:{port}, data in {data_place(settings)}"
    lines = (
        listening,
        f"settings: {settings.origins or 'all are defaults'}",
        *(f"warning: {s}" for s in settings.slips),
    )
    return "\nringtune service: ".join(lines)
