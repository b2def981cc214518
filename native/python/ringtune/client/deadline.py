# SPDX-License-Identifier: Apache-2.0
"""A transport whose whole exchange has one deadline: connecting, sending, and every byte of the answer count.

httpx bounds each read alone, so that a server that sends a byte a second is never late. Here every wait on the socket
gets the rest of the deadline. A name lookup cannot be interrupted: a caller that cannot wait for it uses a thread.
"""

import socket
import ssl
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import httpcore
import httpx

Clock = Callable[[], float]


class ExchangeDeadline:
    """The time by which the exchange in progress must have ended; used from one thread at a time."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        """Begin without one; `clock` gives seconds, monotonic."""
        self._clock = clock
        self._end_s = 0.0

    def begin(self, limit_s: float) -> None:
        """Allow the exchange that begins now so many seconds."""
        self._end_s = self._clock() + limit_s

    def left_s(self, late: type[Exception]) -> float:
        """Return the seconds that are left, above zero; raise `late` if there are none."""
        left_s = self._end_s - self._clock()
        if left_s <= 0:
            raise late("the time for the whole exchange is over")
        return left_s


class DeadlineTransport(httpx.BaseTransport):
    """Sends over one kept connection, under a deadline."""

    def __init__(self, deadline: ExchangeDeadline, *, is_encrypted: bool) -> None:
        """Connect with the first request.

        Args:
            deadline: Begun by the caller before each request.
            is_encrypted: Whether there will be TLS; certificates are checked against the system's.
        """
        self._pool = httpcore.ConnectionPool(
            ssl_context=ssl.create_default_context() if is_encrypted else None,
            max_connections=1,
            network_backend=_Backend(deadline),
        )

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request and return the answer, its body still to be read."""
        url = httpcore.URL(
            scheme=request.url.raw_scheme,
            host=request.url.raw_host,
            port=request.url.port,
            target=request.url.raw_path,
        )
        response = self._pool.handle_request(
            httpcore.Request(
                request.method, url, headers=request.headers.raw, content=request.stream, extensions=request.extensions
            )
        )
        return httpx.Response(response.status, headers=response.headers, stream=_Body(response))

    def close(self) -> None:
        """Close the connection."""
        self._pool.close()


class _Body(httpx.SyncByteStream):
    """The bytes of an answer as they come."""

    def __init__(self, response: httpcore.Response) -> None:
        self._response = response

    def __iter__(self) -> Iterator[bytes]:
        yield from self._response.iter_stream()

    def close(self) -> None:
        self._response.close()


class _Backend(httpcore.NetworkBackend):
    """Makes connections whose waits end with the deadline."""

    def __init__(self, deadline: ExchangeDeadline) -> None:
        self._deadline = deadline
        self._sockets = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """Connect to the first of the host's addresses that answers; together they have the rest of the time."""
        del timeout
        failure: Exception = httpcore.ConnectError(f"{host} has no address")
        for address in self._addresses(host, port):
            left_s = self._deadline.left_s(httpcore.ConnectTimeout)
            try:
                stream = self._sockets.connect_tcp(address, port, left_s, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
                continue
            return _Stream(stream, self._deadline)
        raise failure

    @staticmethod
    def _addresses(host: str, port: int) -> Iterator[str]:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise httpcore.ConnectError(f"{host} cannot be looked up ({error})") from error
        yield from (str(entry[4][0]) for entry in found)


class _Stream(httpcore.NetworkStream):
    """A connection whose every wait ends with the deadline."""

    def __init__(self, stream: httpcore.NetworkStream, deadline: ExchangeDeadline) -> None:
        self._stream = stream
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        del timeout
        return self._stream.read(max_bytes, self._deadline.left_s(httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        del timeout
        self._stream.write(buffer, self._deadline.left_s(httpcore.WriteTimeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        del timeout
        left_s = self._deadline.left_s(httpcore.ConnectTimeout)
        return _Stream(self._stream.start_tls(ssl_context, server_hostname, left_s), self._deadline)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)
