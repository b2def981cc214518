# SPDX-License-Identifier: Apache-2.0
"""Frames: whatever cuts them, and whatever arrives in their place."""

import os
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtune.meeting.rendezvous.channel import (
    LARGEST_INTEGER,
    MAX_FRAME_BYTES,
    Channel,
    ChannelError,
    Deadline,
    FrameDecoder,
    Interrupted,
    encode_frame,
)

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-LARGEST_INTEGER, LARGEST_INTEGER)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=9),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=5), children, max_size=3),
    max_leaves=8,
)
messages = st.builds(lambda kind, rest: {**rest, "type": kind}, st.text(), st.dictionaries(st.text(), json_values))


@given(sent=st.lists(messages, max_size=4), data=st.data())
def test_messages_survive_any_cut(sent: list[dict[str, Any]], data: st.DataObject) -> None:
    """However the stream is cut into reads, the same messages come out."""
    stream = b"".join(encode_frame(message) for message in sent)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    pieces = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    decoder = FrameDecoder()

    received = [message for piece in pieces for message in decoder.feed(piece)]

    assert sent == received


@given(sent=st.lists(messages, min_size=1, max_size=3))
def test_no_more_is_wanted_than_the_message_under_way(sent: list[dict[str, Any]]) -> None:
    """A reader that takes just the wanted bytes ends exactly at the end of each message."""
    stream = b"".join(encode_frame(message) for message in sent)
    decoder, taken = FrameDecoder(), 0
    received: list[dict[str, Any]] = []

    while len(received) < len(sent):
        wanted = decoder.wanted_bytes()
        received += decoder.feed(stream[taken : taken + wanted])
        taken += wanted
        assert wanted > 0

    assert sent == received
    assert len(stream) == taken


@given(st.binary(max_size=200))
def test_garbage_is_refused_or_waited_for(garbage: bytes) -> None:
    """Any bytes give messages, an error of the channel, or an incomplete message; never another error."""
    decoder = FrameDecoder()

    try:
        received = decoder.feed(garbage)
    except ChannelError:
        received = []

    assert all(isinstance(message["type"], str) for message in received)


def framed(body: bytes) -> bytes:
    """Return the frame of a body."""
    return len(body).to_bytes(4, "big") + body


@pytest.mark.parametrize(
    "frame",
    [
        (MAX_FRAME_BYTES + 1).to_bytes(4, "big"),
        b"\x00\x00\x00\x00",
        b"\x00\x00\x00\x02[]",
        b"\x00\x00\x00\x02{}",
        b'\x00\x00\x00\x0a{"type":1}',
        b"\x00\x00\x00\x01{",
        b"\x00\x00\x00\x02\xff\xfe",
        (100_000).to_bytes(4, "big") + b"[" * 100_000,
        framed(b'{"type":"x","n":Infinity}'),
        framed(b'{"type":"x","n":NaN}'),
        framed(b'{"type":"x","n":1e999}'),
        framed(b'{"type":"x","n":9223372036854775808}'),
        framed(b'{"type":"x","n":-1' + b"0" * 100_000 + b"}"),
    ],
)
def test_a_broken_frame_is_an_error(frame: bytes) -> None:
    """Too long, not an object, without a type, torn, no UTF-8, nested without end, a number without bounds: refused."""
    with pytest.raises(ChannelError):
        FrameDecoder().feed(frame)


def test_a_message_over_the_limit_is_not_sent() -> None:
    """A frame that the other end would refuse is refused here."""
    with pytest.raises(ValueError, match="over the limit"):
        encode_frame({"type": "x", "text": "a" * MAX_FRAME_BYTES})


@pytest.fixture
def channels() -> Iterator[tuple[Channel, Channel]]:
    """Two connected channels."""
    ends = [Channel(end) for end in socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)]
    yield ends[0], ends[1]
    for end in ends:
        end.close()


def test_a_socket_is_handed_on_without_a_byte_lost(channels: tuple[Channel, Channel]) -> None:
    """Bytes after the last message stay in the socket for its next owner."""
    ours, theirs = channels
    theirs.send({"type": "last"})
    descriptor = theirs.detach()
    os.write(descriptor, b"engine's bytes")

    message = ours.receive(Deadline.after(60))
    taken = ours.detach()

    assert {"type": "last"} == message
    assert b"engine's bytes" == os.read(taken, 100)
    os.close(taken)
    os.close(descriptor)


def test_descriptors_travel_with_their_message(channels: tuple[Channel, Channel]) -> None:
    """Received descriptors are copies, and are closed with the channel unless the receiver takes them."""
    ours, theirs = channels
    read_end, write_end = os.pipe()
    theirs.send({"type": "taken"}, (write_end,))
    theirs.send({"type": "left"}, (write_end,))

    ours.receive(Deadline.after(60))
    (taken,) = ours.take_descriptors()
    ours.receive(Deadline.after(60))
    ours.close()

    os.write(taken, b"x")
    os.close(taken)
    os.close(write_end)
    assert [b"x", b""] == [os.read(read_end, 5), os.read(read_end, 5)]  # the end: no copy is open
    os.close(read_end)


def test_a_long_message_reaches_a_slow_reader(channels: tuple[Channel, Channel]) -> None:
    """More than the socket's memory holds is sent as the reader reads."""
    ours, theirs = channels
    text = "a" * (MAX_FRAME_BYTES - 100)
    pid = os.fork()
    if pid == 0:
        theirs.send({"type": "long", "text": text})
        os._exit(0)

    message = ours.receive(Deadline.after(60))

    assert text == message["text"]
    assert 0 == os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_waiting_ends_at_the_deadline_and_with_the_peer(channels: tuple[Channel, Channel]) -> None:
    """A silent peer is a timeout, a gone one an error."""
    ours, theirs = channels
    with pytest.raises(TimeoutError):
        ours.receive(Deadline.after(0.02))

    theirs.close()

    with pytest.raises(ChannelError, match="closed"):
        ours.receive(Deadline.after(60))


def test_news_of_another_channel_go_first(channels: tuple[Channel, Channel]) -> None:
    """A wait for one peer ends when a more important one has news."""
    ours, theirs = channels
    ends = [Channel(end) for end in socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)]
    ends[1].send({"type": "abort"})

    with pytest.raises(Interrupted):
        ours.receive(Deadline.after(60), interrupt=ends[0])

    assert {"type": "abort"} == ends[0].receive(Deadline.after(60))
    for end in (*ends, theirs):
        end.close()
