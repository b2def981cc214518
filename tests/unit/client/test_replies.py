# SPDX-License-Identifier: Apache-2.0
"""Replies are read strictly, and the message of a refusal names the field."""

from typing import Annotated, Any

import pytest

from ringtune.client import ServiceReplyError
from ringtune.client.replies import read_reply
from ringtune.rest_models.fields import Config, Count, Number, Reply, one_of


class Inner(Reply):
    """A part."""

    count: Count


class Outer(Reply):
    """A whole."""

    name: str
    share: Number
    word: Annotated[str, one_of("a", "b")]
    inner: Inner
    parts: list[Inner]
    values: Config
    anything: dict[str, Any]
    missing: Count | None = None


WHOLE: dict[str, Any] = {
    "name": "a",
    "share": 1,
    "word": "c",
    "inner": {"count": 1, "new_field": 2},
    "parts": [{"count": 2}],
    "values": {"x": True, "y": 3, "z": "w"},
    "anything": {"deep": [{"er": None}]},
}


def test_a_whole_reply_is_read() -> None:
    """Fields and words that are not known are taken, fields with a default may be missing."""
    read = read_reply(Outer, WHOLE)

    assert ("a", 1, "c", 1, [2]) == (read.name, read.share, read.word, read.inner.count, [p.count for p in read.parts])
    assert ({"deep": [{"er": None}]}, None) == (read.anything, read.missing)
    assert read.values["x"] is True


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"name": 1}, "Outer.name='1'"),
        ({"share": "1"}, "Outer.share"),
        ({"share": float("inf")}, "Outer.share"),
        ({"share": True}, "Outer.share"),
        ({"share": 10**400}, "Outer.share"),
        ({"inner": None}, "Outer.inner"),
        ({"inner": {}}, "Outer.inner.count: Field required"),
        ({"parts": [{"count": 2}, {"count": 2.5}]}, r"Outer.parts\[1\].count"),
        ({"parts": {}}, "Outer.parts"),
        ({"values": {"x": [0.5]}}, "Outer.values.x"),
        ({"values": {"x": "y" * 65}}, "Outer.values.x"),
        ({"missing": "x"}, "Outer.missing"),
    ],
)
def test_a_field_of_another_type_is_named(change: dict[str, Any], place: str) -> None:
    """The message names the field, and a piece of the value."""
    with pytest.raises(ServiceReplyError, match=place):
        read_reply(Outer, {**WHOLE, **change})


def test_a_reply_that_is_no_object_is_refused() -> None:
    """An empty body is none either."""
    with pytest.raises(ServiceReplyError, match="Outer='None'"):
        read_reply(Outer, None)
