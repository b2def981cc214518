# SPDX-License-Identifier: Apache-2.0
"""Tests of reading replies: the annotation is the schema."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from ringtune.client import ServiceReplyError
from ringtune.client.json_values import from_json


@dataclass(frozen=True)
class Inner:
    """A part."""

    count: int


@dataclass(frozen=True)
class Outer:
    """A whole."""

    name: str
    share: float
    inner: Inner
    parts: tuple[Inner, ...]
    values: Mapping[str, bool | int | str]
    anything: Mapping[str, Any]
    missing: int | None = None


WHOLE: dict[str, Any] = {
    "name": "a",
    "share": 1,
    "inner": {"count": 1, "new_field": 2},
    "parts": [{"count": 2}],
    "values": {"x": True, "y": 3, "z": "w"},
    "anything": {"deep": [{"er": None}]},
}


def test_a_whole_reply_is_read() -> None:
    """Fields that are not known are ignored, those with a default may be missing."""
    read = from_json(Outer, WHOLE)

    assert Outer("a", 1, Inner(1), (Inner(2),), {"x": True, "y": 3, "z": "w"}, {"deep": [{"er": None}]}) == read
    assert read.values["x"] is True


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"name": 1}, "Outer.name"),
        ({"share": "1"}, "Outer.share"),
        ({"share": float("inf")}, "Outer.share"),
        ({"share": True}, "Outer.share"),
        ({"share": 10**400}, "Outer.share"),
        ({"inner": None}, "Outer.inner"),
        ({"inner": {}}, "no count"),
        ({"parts": [{"count": 2}, {"count": 2.0}]}, r"Outer.parts\[1\].count"),
        ({"parts": {}}, "Outer.parts"),
        ({"values": {"x": 0.5}}, "Outer.values.x"),
        ({"values": {"x": 2**70}}, "Outer.values.x"),
        ({"missing": "x"}, "Outer.missing"),
    ],
)
def test_what_is_of_another_kind_is_named(change: dict[str, Any], place: str) -> None:
    """The message says where."""
    with pytest.raises(ServiceReplyError, match=place):
        from_json(Outer, {**WHOLE, **change})


def test_a_reply_that_is_no_object_is_refused() -> None:
    """A reply that is no object is refused, as an empty body is."""
    with pytest.raises(ServiceReplyError, match="no object"):
        from_json(Outer, None)
