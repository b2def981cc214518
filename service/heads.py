# SPDX-License-Identifier: Apache-2.0
"""Request heads on a connection: where each begins and ends, and how many bytes it has. Keeps no body.

The reader has the parser, and the leniencies, that Uvicorn has behind it, so that the two agree on where requests end.
"""

from dataclasses import dataclass, field

import httptools

HEAD_BYTES_MAX = 32 * 1024
PER_HEADER_BYTES = 4
"""The colon, the space and the end of the line."""


class HeadTooLargeError(Exception):
    """A head, or the trailers after a body, have more than `HEAD_BYTES_MAX` bytes."""


@dataclass
class Head:
    """The head of one request.

    Attributes:
        method: `GET`, `PUT`, ...
        url: The request target as it was sent.
        headers: Names in lower case, and values, in their order.
        keeps_alive: Whether the connection is to stay open after the reply.
    """

    method: bytes = b""
    url: bytes = b""
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    keeps_alive: bool = False

    @property
    def expects_continue(self) -> bool:
        """Return whether the client waits to be asked for its body."""
        return any(name == b"expect" and value.lower() == b"100-continue" for name, value in self.headers)


class HeadReader:
    """Follows the requests of one connection.

    Attributes:
        begun: Requests whose first byte has come.
        complete: Requests whose head has come.
        ended: Requests whose body has come, too.
        head: The head of the newest request, as far as it has come.
    """

    def __init__(self) -> None:
        """Begin before the first request."""
        self.begun = self.complete = self.ended = 0
        self.head = Head()
        self._head_bytes = 0  # of this request, as far as the parser has told them
        self._untold_bytes = 0  # kept by the parser: the beginning of a header that has not ended
        self._is_too_large = False
        self._parser = httptools.HttpRequestParser(self)
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)

    @property
    def is_in_head(self) -> bool:
        """Return whether a head has begun and not ended."""
        return self.begun > self.complete

    @property
    def is_between(self) -> bool:
        """Return whether everything that has begun has ended."""
        return self.begun == self.ended

    def feed(self, data: bytes) -> None:
        """Read on.

        Raises:
            HeadTooLargeError: If a head, or trailers, are too large.
            httptools.HttpParserError: If this is no HTTP.
        """
        self._untold_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:  # ignored here and behind: the parser goes on after it
            self._untold_bytes = 0
        except httptools.HttpParserError:
            if self._is_too_large:
                raise HeadTooLargeError from None
            raise
        if self._untold_bytes > HEAD_BYTES_MAX:
            raise HeadTooLargeError

    def on_message_begin(self) -> None:
        """Begin a request."""
        self.begun += 1
        self.head = Head()
        self._head_bytes = self._untold_bytes = 0

    def on_url(self, url: bytes) -> None:
        """Take a part of the address."""
        self._count(len(url))
        self.head.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header, or a trailer."""
        self._count(len(name) + len(value) + PER_HEADER_BYTES)
        if self.is_in_head:
            self.head.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Take that the body begins."""
        self._untold_bytes = 0
        self.complete += 1
        self.head.method = self._parser.get_method()
        self.head.keeps_alive = self._parser.get_http_version() != "1.0" and self._parser.should_keep_alive()

    def on_body(self, _part: bytes) -> None:
        """Drop a part of the body."""
        self._untold_bytes = 0

    def on_message_complete(self) -> None:
        """Take that the request is whole."""
        self._untold_bytes = 0
        self.ended += 1

    def _count(self, size: int) -> None:
        self._untold_bytes = 0
        self._head_bytes += size
        if self._head_bytes > HEAD_BYTES_MAX:
            self._is_too_large = True
            raise HeadTooLargeError
