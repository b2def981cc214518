# SPDX-License-Identifier: Apache-2.0
"""Tests of one exchange: the request, and the bounds on time, size and kind of every answer."""

import socket
import time

import pytest

from ringtune.client import (
    ExchangeLimits,
    ServiceClient,
    ServiceRefusedError,
    ServiceReplyError,
    ServiceUnavailableError,
)
from ringtune.errors import StoreError
from tests.integration.service_link.servers import (
    Handler,
    always,
    black_hole,
    closed_port,
    http_reply,
    read_request,
    serving,
    trickle,
)

PAGE = b'{"items": [], "next_cursor": null}'


def refusal(handler: Handler, limits: ExchangeLimits | None = None) -> StoreError:
    """Return the error that a call raises."""
    with serving(handler) as url, pytest.raises(StoreError) as raised:
        ServiceClient(url, "t0ken", limits).studies()
    return raised.value


def test_what_is_sent() -> None:
    """The request has the token as a bearer, the query quoted, and no fact of the machine."""
    seen: list[bytes] = []

    def handle(connection: socket.socket) -> None:
        seen.append(connection.recv(65536))
        connection.sendall(http_reply(PAGE))

    with serving(handle) as url:
        ServiceClient(f"{url}/team/", "t0ken").studies(model="ä&b", cursor=None)

    lines = seen[0].decode().split("\r\n")
    assert "GET /team/v1/studies?model=%C3%A4%26b HTTP/1.1" == lines[0]
    names = {line.partition(":")[0].lower() for line in lines[1:] if line}
    assert {"authorization: bearer t0ken", "accept-encoding: identity"} <= {line.lower() for line in lines}
    assert {"host", "accept", "accept-encoding", "connection", "user-agent", "authorization"} == names


@pytest.mark.parametrize(
    "reply", [http_reply(PAGE + b" " * 20_000), b"HTTP/1.1 200 OK\r\nX-Slow: " + b"y" * 20_000], ids=["body", "head"]
)
def test_a_byte_now_and_then_is_late_like_silence(reply: bytes) -> None:
    """In the head as in the body: the limit is for the whole exchange, which would take minutes."""
    began_s = time.monotonic()

    error = refusal(trickle(reply, gap_s=0.02), ExchangeLimits(exchange_s=0.5))

    assert isinstance(error, ServiceUnavailableError)
    assert "time" in str(error)
    assert 0.4 < time.monotonic() - began_s


@pytest.mark.parametrize("handler", [black_hole, lambda _connection: None])
def test_silence_and_a_hang_up_are_no_answer(handler: Handler) -> None:
    """The same call may succeed later."""
    assert isinstance(refusal(handler, ExchangeLimits(exchange_s=0.3)), ServiceUnavailableError)


def test_nobody_there_is_no_answer() -> None:
    """The message names the URL."""
    url = closed_port()

    with pytest.raises(ServiceUnavailableError, match=url):
        ServiceClient(url).studies()


def test_a_name_that_does_not_exist_is_no_answer() -> None:
    """A name without an address, such as this reserved one, counts as no answer."""
    with pytest.raises(ServiceUnavailableError, match="looked up"):
        ServiceClient("http://service.invalid").studies()


def test_a_connection_that_went_stale_is_made_anew() -> None:
    """A connection that went stale, as after a restart of the service, is made anew."""

    def handle(connection: socket.socket) -> None:
        read_request(connection)
        connection.sendall(http_reply(PAGE))

    with serving(handle) as url:
        client = ServiceClient(url)
        assert [] == client.studies().items
        time.sleep(0.05)
        assert [] == client.studies().items


@pytest.mark.parametrize("chunked", [False, True])
def test_an_answer_without_end_is_not_read(chunked: bool) -> None:
    """An endless answer is cut off, whatever length it declares."""
    head = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: 1000000000000"
    part = b"1000\r\n" + b" " * 4096 + b"\r\n" if chunked else b" " * 4096

    def handle(connection: socket.socket) -> None:
        read_request(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n\r\n")
        while True:
            connection.sendall(part)

    error = refusal(handle, ExchangeLimits(reply_bytes=50_000))

    assert isinstance(error, ServiceReplyError)
    assert "50000 bytes" in str(error)


@pytest.mark.parametrize(
    ("status", "kind", "retry_after_s"),
    [
        ("429 Too Many Requests", ServiceUnavailableError, 7.0),
        ("503 Service Unavailable", ServiceUnavailableError, 7.0),
        ("500 Internal Server Error", ServiceUnavailableError, 7.0),
        ("404 Not Found", ServiceRefusedError, None),
        ("302 Found", ServiceReplyError, None),
        ("204 No Content", ServiceReplyError, None),
    ],
)
def test_a_status_is_an_error_of_its_kind(status: str, kind: type[Exception], retry_after_s: float | None) -> None:
    """Try later, never, or ask somebody else."""
    headers = "Retry-After: 7\r\nLocation: http://127.0.0.1:1/\r\n"

    error = refusal(always(http_reply(b"", status, headers)))

    assert kind is type(error)
    assert retry_after_s == getattr(error, "retry_after_s", None)


def test_a_problem_is_told_with_its_code_and_nothing_that_moves_the_terminal() -> None:
    """The text of a problem is somebody else's, and loses its control characters."""
    body = b'{"code": "study_not_found", "detail": "no \\u001b[31mstudy\\n' + b"x" * 5000 + b'"}'

    error = refusal(always(http_reply(body, "404 Not Found")))

    assert isinstance(error, ServiceRefusedError)
    assert (404, "study_not_found") == (error.status, error.code)
    assert str(error).isprintable()
    assert len(str(error)) < 500


def test_no_error_shows_the_token() -> None:
    """No error of any kind contains the token."""
    for reply in (b"", http_reply(b"", "401 Unauthorized"), http_reply(b"[]"), b"junk\r\n\r\n"):
        assert "t0ken" not in str(refusal(always(reply), ExchangeLimits(exchange_s=0.3)))
