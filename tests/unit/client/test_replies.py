# SPDX-License-Identifier: Apache-2.0
"""Replies are read strictly, and the message of a refusal names the field."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, get_args, get_origin

import pytest

from ringtune.client import ServiceReplyError
from ringtune.client.replies import read_reply
from ringtune.shared_service import rest_models
from ringtune.shared_service.rest_models.fields import SHOWN, Config, Count, Number, Reply, one_of


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


EMBEDDED = {"Study.search_space"}
"""Fields that hold another program's JSON as it is; they are never shown."""


def texts_in(kind: Any, notes: Sequence[Any] = ()) -> Iterator[Sequence[Any]]:
    """Yield the annotations of each text in a type: its constraints and validators."""
    if get_origin(kind) is Annotated:
        inner, *own = get_args(kind)
        yield from texts_in(inner, [*own, *notes])
    elif kind is str:
        yield notes
    else:
        for part in get_args(kind):
            yield from texts_in(part)


def unshowable_fields() -> list[str]:
    """Return the fields of replies with a text that may hold unprintable characters."""
    replies = [model for model in vars(rest_models).values() if isinstance(model, type) and issubclass(model, Reply)]
    return [
        f"{model.__name__}.{name}"
        for model in replies
        for name, field in model.model_fields.items()
        for notes in texts_in(field.annotation, field.metadata)
        if not any(note is SHOWN or getattr(note, "pattern", None) for note in notes)
    ]


def test_every_text_of_a_reply_is_printable() -> None:
    """A text of a reply is bound to a pattern, or its escape sequences are escaped."""
    assert EMBEDDED == set(unshowable_fields())


def test_escape_sequences_of_a_reply_are_escaped() -> None:
    """No field has them that a person, a terminal or a shell gets to see."""
    default = {"trials": 0, "jobs": 0}
    data = {
        "config": {},
        "source": "a\nb",
        "target": "\x1b[2J",
        "is_prior": True,
        "standing": "\r",
        "evidence": default,
    }

    read = read_reply(rest_models.Recommendation, {**data, "reason": "\u202e" * 2000})

    assert ("a\\nb", "\\x1b[2J", "\\r", "\\u202e" * 2000) == (read.source, read.target, read.standing, read.reason)


def test_a_refusal_is_printable() -> None:
    """Names and values of the reply are in the message, as far as a person may be shown them."""
    with pytest.raises(ServiceReplyError) as error:
        read_reply(rest_models.Recommendation, {"config": {"\x1b[2J": "\x07"}})

    assert str(error.value).isprintable()
