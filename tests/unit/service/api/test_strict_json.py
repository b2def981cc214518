# SPDX-License-Identifier: Apache-2.0
"""JSON that is read strictly, at once and piece by piece: accepted and refused texts."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtune.service.api import strict_json
from ringtune.service.api.refusals import UnreadableBodyError
from ringtune.service.api.strict_json import VALUES_MIN, JsonStream, count_values, strict_value, values_max
from ringtune.service.errors import BodyTooLarge

SCALARS = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
VALUES = st.recursive(SCALARS | TEXT, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner), max_leaves=12)
OBJECTS = st.fixed_dictionaries({"records": st.lists(VALUES, max_size=6)}, optional={"job_id": VALUES, "é": VALUES})
NOT_JSON = [
    b"",
    b"{",
    b"{}}",
    b'{"a":1}{"a":1}',
    b'{"a":1,}',
    b'{"a" 1}',
    b"{a:1}",
    b'{"a":NaN}',
    b'{"a":-Infinity}',
    b'{"a":1e999}',
    b'{"a":01}',
    b'{"a":"\\ud800"}',
    b'{"a":"\\udc00\\ud800"}',
    b'{"a":"\x01"}',
    b'{"a":"\xff"}',
    b'\xef\xbb\xbf{"a":1}',
    b'{"a":' + b"[" * 100_000,
    b'{"a":1,"a":1}',
    b'{"a":1,"\\u0061":2}',
    b'{"a":[{"b":{"c":1,"d":2,"c":3}}]}',
    b'{"a":{' + b",".join(b'"%d":0' % number for number in range(1001)) + b"}}",
]


@pytest.mark.parametrize("body", NOT_JSON, ids=lambda body: repr(body[:24]))
def test_bodies_that_are_no_json_are_refused_whole_and_in_pieces(body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Among it names that occur twice, however they are written, in the members and in their values."""
    monkeypatch.setattr(strict_json, "PIECE_BYTES", 3)
    with pytest.raises(UnreadableBodyError):
        strict_value(body)
    with pytest.raises((UnreadableBodyError, BodyTooLarge)):
        list(JsonStream(body, "records").items())
    if body.startswith(b'{"a"'):
        with pytest.raises((UnreadableBodyError, BodyTooLarge)):
            list(JsonStream(b'{"records":[' + body + b"]}", "records").items())


def test_a_name_that_occurs_twice_is_named() -> None:
    """The refusal says which one, so that whoever sent it finds it."""
    with pytest.raises(UnreadableBodyError, match="'job_id' occurs twice"):
        strict_value(b'{"job_id":"a","steps":1,"job_id":"b"}')
    with pytest.raises(UnreadableBodyError, match="'records' occurs twice"):
        list(JsonStream(b'{"records":[1],"records":[2]}', "records").items())


@given(value=OBJECTS, piece=st.integers(1, 40), indent=st.none() | st.integers(0, 2), is_ascii=st.booleans())
def test_a_stream_finds_the_values_of_the_text(
    value: dict[str, Any], piece: int, indent: int | None, is_ascii: bool
) -> None:
    """The stream finds the parts of any text, wherever a piece ends: in a number, a name, a character."""
    body = json.dumps(value, indent=indent, ensure_ascii=is_ascii).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(strict_json, "PIECE_BYTES", piece)
        stream = JsonStream(body, "records")
        items = list(stream.items())

    assert value == {"records": items, **stream.members} == strict_value(body)


@pytest.mark.parametrize(
    "body", [b"[]", b'"a"', b"1", b'{"records":1}', b'{"records":{}}', b"{}"], ids=lambda body: body.decode()
)
def test_an_array_that_is_missing_is_found_missing(body: bytes) -> None:
    """A value in the array's place is a member as any other; a text that is no object is refused."""
    stream = JsonStream(body, "records")
    if not body.startswith(b"{"):
        with pytest.raises(UnreadableBodyError):
            list(stream.items())
        return

    assert [] == list(stream.items())
    assert json.loads(body) == stream.members


@pytest.mark.parametrize(
    "item",
    [b'"' + b"x" * 3_000_000 + b'"', b"[" + b"0," * 200_000 + b"0]", b"x" * 3_000_000],
    ids=["long", "wide", "no"],
)
def test_one_value_in_a_stream_is_bounded(item: bytes) -> None:
    """In characters and in values: reading it holds everybody up."""
    with pytest.raises((BodyTooLarge, UnreadableBodyError)):
        list(JsonStream(b'{"records":[' + item + b',{"a":1}]}', "records").items())


@given(value=VALUES)
def test_no_value_escapes_the_count(value: Any) -> None:
    """Values are at most one more than commas and opening brackets."""

    def number(inner: Any) -> int:
        children = inner.values() if isinstance(inner, dict) else inner if isinstance(inner, list) else ()
        return 1 + sum(map(number, children))

    assert number(value) <= 1 + count_values(json.dumps(value).encode())


def test_a_body_may_have_as_many_values_as_a_log_of_its_size() -> None:
    """Two millions in 32 MB; a small body never fewer than a large study needs."""
    assert (2 << 20, VALUES_MIN, VALUES_MIN) == (values_max(32 << 20), values_max(1 << 20), values_max(1024))
