# SPDX-License-Identifier: Apache-2.0
"""Frames: whatever cuts them, and whatever arrives in their place."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtune.rendezvous.channel import MAX_FRAME_BYTES, ChannelError, FrameDecoder, encode_frame

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=9),
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


@given(st.binary(max_size=200))
def test_garbage_is_refused_or_waited_for(garbage: bytes) -> None:
    """Any bytes give messages, an error of the channel, or nothing yet; never another error."""
    decoder = FrameDecoder()

    try:
        received = decoder.feed(garbage)
    except ChannelError:
        received = []

    assert all(isinstance(message["type"], str) for message in received)


@pytest.mark.parametrize(
    "frame",
    [
        (MAX_FRAME_BYTES + 1).to_bytes(4, "big"),
        b"\x00\x00\x00\x02[]",
        b"\x00\x00\x00\x02{}",
        b'\x00\x00\x00\x0a{"type":1}',
        b"\x00\x00\x00\x01{",
        b"\x00\x00\x00\x02\xff\xfe",
        (100_000).to_bytes(4, "big") + b"[" * 100_000,
    ],
)
def test_a_broken_frame_is_an_error(frame: bytes) -> None:
    """Too long, not an object, without a type, torn, no UTF-8, nested without end: refused."""
    with pytest.raises(ChannelError):
        FrameDecoder().feed(frame)


def test_a_message_over_the_limit_is_not_sent() -> None:
    """A frame that the other end would refuse is refused here."""
    with pytest.raises(ValueError, match="over the limit"):
        encode_frame({"type": "x", "text": "a" * MAX_FRAME_BYTES})
