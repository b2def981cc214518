# SPDX-License-Identifier: Apache-2.0
"""The server's side of a connection: what comes before and after a request's body is bounded, whoever sends it.

Bodies are counted where requests are worked on; heads are in memory before anybody asks for a token. Uvicorn's fast
protocol takes them without end.
"""

from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_BYTES_MAX = 32 * 1024
PER_HEADER_BYTES = 4
"""The colon, the space and the end of the line."""


class HeadTooLargeError(Exception):
    """The parser's caller answers 400 and closes the connection."""


class BoundedHeads(HttpToolsProtocol):
    """Uvicorn's protocol, which here closes a connection whose head, or whose trailers, are too large."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        """Take what Uvicorn gives."""
        super().__init__(*arguments, **options)
        self._head_bytes = 0  # of this request, as far as the parser has told them
        self._untold_bytes = 0  # that the parser keeps: the beginning of a header that has not ended

    def data_received(self, data: bytes) -> None:
        """Read on."""
        self._untold_bytes += len(data)
        super().data_received(data)
        if self._untold_bytes > HEAD_BYTES_MAX and not self.transport.is_closing():
            self.send_400_response("The request's head is too large.")

    def on_message_begin(self) -> None:
        """Count from zero."""
        self._head_bytes = self._untold_bytes = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Take a part of the address."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header, or a trailer."""
        self._count(len(name) + len(value) + PER_HEADER_BYTES)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Take that the body begins."""
        self.note_part()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        self.note_part()
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Take that the request is whole."""
        self.note_part()
        super().on_message_complete()

    def note_part(self) -> None:
        """Take that the parser has told all that it had: it keeps nothing of a header."""
        self._untold_bytes = 0

    def _count(self, size: int) -> None:
        self.note_part()
        self._head_bytes += size
        if self._head_bytes > HEAD_BYTES_MAX:
            raise HeadTooLargeError
