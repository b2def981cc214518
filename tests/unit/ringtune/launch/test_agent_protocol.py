# SPDX-License-Identifier: Apache-2.0
"""The protocol between the launcher and a host agent."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtune.launch import agent_protocol
from ringtune.launch.agent_protocol import (
    MARK,
    MESSAGE,
    STDERR,
    STDOUT,
    AgentReport,
    OrderDecoder,
    ProtocolError,
    ReportDecoder,
)

REPORTS = st.lists(
    st.builds(AgentReport, st.sampled_from([STDOUT, STDERR]), st.integers(0, 2**32 - 1), st.binary(max_size=40)),
    max_size=8,
)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """Return the data in pieces, cut at places that lie within."""
    ends = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[start:end] for start, end in pairwise(ends)]


# A login that prints the mark itself is none that a decoder could tell from an agent.
NOISE = st.binary(max_size=40).filter(lambda noise: (noise + MARK).find(MARK) == len(noise))


@given(reports=REPORTS, noise=NOISE, places=st.lists(st.integers(0, 1000), max_size=6))
def test_reports_come_through_however_they_are_cut(reports: list[AgentReport], noise: bytes, places: list[int]) -> None:
    """Every byte after the mark arrives, and the login's output before it is left out."""
    stream = noise + MARK
    for report in reports:
        stream += agent_protocol.encode_output(report.kind, report.rank, report.payload)
    decoder = ReportDecoder()

    found = [report for piece in cut(stream, places) for report in decoder.feed(piece)]

    assert reports == found


@given(
    orders=st.lists(st.dictionaries(st.text(max_size=5), st.text(max_size=9), max_size=3), max_size=5),
    places=st.lists(st.integers(0, 1000), max_size=6),
)
def test_orders_come_through_however_they_are_cut(orders: list[dict[str, str]], places: list[int]) -> None:
    """Line feeds and any character inside of values do no harm."""
    messages = [{**order, "type": "x"} for order in orders]
    stream = b"".join(agent_protocol.encode_order(message) for message in messages)
    decoder = OrderDecoder()

    assert messages == [order for piece in cut(stream, places) for order in decoder.feed(piece)]


def test_bytes_of_an_environment_survive() -> None:
    """A value that is no UTF-8 comes back as the same bytes."""
    value = b"caf\xe9".decode("utf-8", "surrogateescape")
    (order,) = OrderDecoder().feed(agent_protocol.encode_order({"type": "start", "value": value}))

    assert b"caf\xe9" == order["value"].encode("utf-8", "surrogateescape")


def test_a_message_is_an_object_with_a_type() -> None:
    """A message comes back as it was."""
    (report,) = ReportDecoder().feed(MARK + agent_protocol.encode_message({"type": "beat", "n": 1}))

    assert {"type": "beat", "n": 1} == report.message()


@pytest.mark.parametrize(
    "stream",
    [
        MARK + b"x" + bytes(8),
        MARK + b"o" + bytes(4) + b"\xff" * 4,
        b"Welcome! " * 200_000,
    ],
)
def test_nonsense_ends_the_connection(stream: bytes) -> None:
    """An unknown kind, a frame that is too long, and a stream without a mark are errors."""
    with pytest.raises(ProtocolError):
        ReportDecoder().feed(stream)


@pytest.mark.parametrize("text", [b"[]", b"{}", b'{"type": 1}', b"\xff", b"[" * 100_000])
def test_what_is_no_message_is_an_error(text: bytes) -> None:
    """Each end rejects a peer that does not speak JSON."""
    with pytest.raises(ProtocolError):
        OrderDecoder().feed(text + b"\n")
    with pytest.raises(ProtocolError):
        AgentReport(MESSAGE, 0, text).message()


def test_an_order_without_an_end_is_an_error() -> None:
    """A stream of bytes without a line feed is not collected for ever."""
    with pytest.raises(ProtocolError):
        OrderDecoder().feed(b"x" * (agent_protocol.MAX_ORDER_BYTES + 1))
