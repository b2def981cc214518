# SPDX-License-Identifier: Apache-2.0
"""JSON as the service reads it: no NaN, no infinity, no lone surrogate, no nesting without end, no name twice.

A whole value is checked by two readers, each for faults that the other one takes: names that occur twice and numbers
beyond the largest by the standard library's, everything else by Pydantic's. Both hold the interpreter's lock while they
read: large values are read piece by piece, in a thread.
"""

import codecs
import json
import math
import re
from collections.abc import Iterable, Iterator
from typing import Any

from pydantic_core import from_json

from ringtune.service.errors import BodyTooLarge

from .refusals import UnreadableBodyError

BYTES_PER_VALUE = 16
"""Fewest bytes per value, on average, of a large body; tuning logs have 21."""
VALUES_MIN = 65_536
"""Values that any body may have: a study with all its gradients and hosts has 15,000."""
PIECE_BYTES = 64 << 10
"""Bytes of a stream that are decoded at a time."""
ITEM_CHARS_MAX = 1 << 20
"""Characters of one value in a stream, as of a line of a log; most records are below a thousand."""
MARKS = 2
"""Characters after a whole number that may belong to it, if more follow: as of 1e+5."""
MEMBERS_MAX = 1000
"""Members of one object; a config has 64 at most. Each that is not known would be one more error to tell."""
SPACE = re.compile(r"[ \t\n\r]*")


def values_max(bytes_max: int) -> int:
    """Return how many values a body may have whose bytes are bounded."""
    return max(VALUES_MIN, bytes_max // BYTES_PER_VALUE)


def count_values(part: bytes) -> int:
    """Return about how many values a part of a JSON text has: its commas and opening brackets, those in names too."""
    return part.count(b",") + part.count(b"[") + part.count(b"{")


def strict_value(text: str | bytes) -> Any:
    """Return the value of a JSON text.

    Raises:
        UnreadableBodyError: If it is none, or has a name twice.
    """
    value, problem = _read(text)
    if problem is not None:
        raise UnreadableBodyError(f"the body is not JSON: {problem[:200]}")
    return value


def _read(text: str | bytes) -> tuple[Any, str | None]:
    """Return a text's value and None, or None and the reason why it has none.

    The reader's own error ends here: it would keep all that had been read until somebody has handled it.
    """
    try:
        _NAMES.decode(text if isinstance(text, str) else text.decode())
        return from_json(text, allow_inf_nan=False), None
    except RecursionError:
        return None, "it is nested too deeply"
    except ValueError as error:
        return None, str(error)


def _check_names(members: list[tuple[str, Any]]) -> None:
    if len(members) > MEMBERS_MAX:
        raise ValueError(f"an object has {len(members)} names; at most {MEMBERS_MAX} are read")
    names = {name for name, _ in members}
    if len(names) < len(members):
        seen: set[str] = set()
        twice = next(name for name, _ in members if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise ValueError(f"the name {twice[:100]!r} occurs twice in an object; send each name once")


def _check_float(digits: str) -> None:
    if math.isinf(float(digits)):
        raise ValueError(f"the number {digits[:100]} is too large")


_NAMES = json.JSONDecoder(object_pairs_hook=_check_names, parse_float=_check_float)


class JsonStream:
    """Reads a JSON object of which one member is a long array, without ever holding all of it.

    Attributes:
        members: The other members, whole; complete when `items` has ended.
    """

    def __init__(self, body: bytes, array: str) -> None:
        """Read `body`; `array` is the name of the long member."""
        self.members: dict[str, Any] = {}
        self._array = array
        self._pieces = _pieces(body)
        self._text = ""
        self._place = 0
        self._is_whole = False

    def items(self) -> Iterator[Any]:
        """Yield the array's items.

        Raises:
            UnreadableBodyError: If the body is no JSON object, or has a name twice.
            BodyTooLarge: If one value has more than `ITEM_CHARS_MAX` characters.
        """
        seen: set[str] = set()
        for _ in self._separated("{", "}"):
            name = self._value()
            if not isinstance(name, str):
                raise UnreadableBodyError("the body is not JSON: a name is no text")
            if name in seen:
                raise UnreadableBodyError(f"the body is not JSON: the name {name[:100]!r} occurs twice in an object")
            seen.add(name)
            self._take(":")
            if name == self._array and self._next() == "[":
                yield from (self._value() for _ in self._separated("[", "]"))
            else:
                self.members[name] = self._value()
        if self._next():
            raise UnreadableBodyError("the body is not JSON: something follows its end")

    def _separated(self, first: str, last: str) -> Iterable[None]:
        """Yield where each part begins between two brackets."""
        self._take(first)
        if self._next() == last:
            self._place += 1
            return
        while True:
            yield
            if self._next() == last:
                self._place += 1
                return
            self._take(",")

    def _take(self, expected: str) -> None:
        found = self._next()
        if found != expected:
            raise UnreadableBodyError(f"the body is not JSON: {expected!r} is missing before {found!r}")
        self._place += 1

    def _next(self) -> str:
        """Return the next character that is no space, empty at the end, and stay before it."""
        while True:
            match = SPACE.match(self._text, self._place)
            assert match is not None
            self._place = match.end()
            if self._place < len(self._text) or not self._read_on():
                return self._text[self._place : self._place + 1]

    def _value(self) -> Any:
        """Return the next value; one that ends with the text at hand may go on in the next piece."""
        self._next()
        while True:
            try:
                _, end = _NAMES.raw_decode(self._text, self._place)
                if end + MARKS < len(self._text) or self._is_whole:
                    break
            except (ValueError, RecursionError) as error:
                if self._is_whole or isinstance(error, RecursionError):
                    raise UnreadableBodyError(f"the body is not JSON: {str(error)[:200]}") from error
            self._read_twice_as_much()
        value = strict_value(self._text[self._place : end])
        self._place = end
        return value

    def _read_twice_as_much(self) -> None:
        """Read on in a value that has not ended; it must not take everybody's time when it is read again."""
        begun = self._text[self._place :]
        if len(begun) > ITEM_CHARS_MAX or count_values(begun.encode()) > VALUES_MIN:
            raise BodyTooLarge(
                f"a value in the body has more than {ITEM_CHARS_MAX} characters, has more than {VALUES_MIN} values in "
                "it, or is no JSON"
            )
        while self._read_on() and len(self._text) < 2 * len(begun):
            pass

    def _read_on(self) -> bool:
        """Drop the text that was read, add the next piece, and tell whether there was one."""
        try:
            piece = next(self._pieces, "")
        except UnicodeDecodeError as error:
            raise UnreadableBodyError("the body is not UTF-8") from error
        self._is_whole = not piece
        self._text = self._text[self._place :] + piece
        self._place = 0
        return bool(piece)


def _pieces(body: bytes) -> Iterator[str]:
    """Yield a text piece by piece, none of them empty."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    for begin in range(0, len(body), PIECE_BYTES):
        piece = decoder.decode(body[begin : begin + PIECE_BYTES], final=begin + PIECE_BYTES >= len(body))
        if piece:
            yield piece
