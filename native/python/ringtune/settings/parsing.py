# SPDX-License-Identifier: Apache-2.0
"""Readers of single values out of text: sizes, booleans, numbers, names, knobs.

Each reader is a small frozen object with `parse(text)` and `allowed`, the range in words. `parse` raises `ValueError`
without a text of its own: the caller names the variable, the value and `allowed`.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from ringtune.tuner.space.parameter_types import BooleanParameter, NumberParameter, Parameter, SpaceError

TRUE_WORDS = ("1", "true")
FALSE_WORDS = ("0", "false")
_SIZE = re.compile(r"([0-9]+)\s*(B|KiB|MiB|GiB|KB|MB|GB)?", re.IGNORECASE)
_FACTORS = {
    "b": 1,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
}


class Reader(Protocol):
    """Reads one kind of value."""

    @property
    def allowed(self) -> str:
        """The allowed values in words."""

    def parse(self, text: str) -> Any:
        """Return the value; raise ValueError when the text is not allowed."""


def parse_size(text: str) -> int:
    """Return the bytes that `text` says, such as `64MiB`, `64 KB` or `65536`; ValueError when it says none."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError(text)
    return int(match[1]) * _FACTORS[(match[2] or "B").lower()]


def parse_number(text: str) -> float:
    """Return a finite decimal number; ValueError for anything else, digits with underscores included."""
    number = float(text)
    if not math.isfinite(number) or "_" in text:
        raise ValueError(text)
    return number


@dataclass(frozen=True)
class BooleanReader:
    """Reads a switch."""

    allowed: str = "0 or 1 (also false, true)"

    def parse(self, text: str) -> bool:
        """Return the switch."""
        word = text.strip().lower()
        if word not in TRUE_WORDS + FALSE_WORDS:
            raise ValueError(text)
        return word in TRUE_WORDS


@dataclass(frozen=True)
class SwitchReader:
    """Reads a switch that has a third position, a word, which it returns."""

    word: str

    @property
    def allowed(self) -> str:
        """The allowed values in words."""
        return f"{self.word}, {BooleanReader.allowed}"

    def parse(self, text: str) -> bool | str:
        """Return the switch or the word."""
        return self.word if text.strip().lower() == self.word else BooleanReader().parse(text)


@dataclass(frozen=True)
class IntegerReader:
    """Reads an integer between `low` and `high`, both included, or one of the `words`, which means None."""

    low: int
    high: int
    words: tuple[str, ...] = ()

    @property
    def allowed(self) -> str:
        """The allowed values in words."""
        return "".join(f"{word} or " for word in self.words) + f"an integer from {self.low} to {self.high}"

    def parse(self, text: str) -> int | None:
        """Return the integer, or None for a word."""
        if text.strip().lower() in self.words:
            return None
        if not re.fullmatch(r"[+-]?[0-9]{1,18}", text.strip()) or not self.low <= int(text) <= self.high:
            raise ValueError(text)
        return int(text)


@dataclass(frozen=True)
class SecondsReader:
    """Reads a duration in seconds between `low` and `high`, both included."""

    low: float
    high: float

    @property
    def allowed(self) -> str:
        """The allowed values in words."""
        return f"seconds from {self.low:g} to {self.high:g}"

    def parse(self, text: str) -> float:
        """Return the seconds."""
        seconds = parse_number(text)
        if not self.low <= seconds <= self.high:
            raise ValueError(text)
        return seconds


@dataclass(frozen=True)
class NumberReader:
    """Reads a finite number between `low` and `high`, both included."""

    low: float
    high: float

    @property
    def allowed(self) -> str:
        """The allowed values in words."""
        return f"a number from {self.low:g} to {self.high:g}"

    def parse(self, text: str) -> float:
        """Return the number."""
        number = parse_number(text)
        if not self.low <= number <= self.high:
            raise ValueError(text)
        return number


@dataclass(frozen=True)
class ChoiceReader:
    """Reads one of several words."""

    choices: tuple[str, ...]

    @property
    def allowed(self) -> str:
        """The allowed values in words."""
        return ", ".join(self.choices)

    def parse(self, text: str) -> str:
        """Return the word."""
        word = text.strip().lower()
        if word not in self.choices:
            raise ValueError(text)
        return word


@dataclass(frozen=True)
class ChoicesReader:
    """Reads words that are separated by commas, each one of several; a word that is repeated counts once."""

    choices: tuple[str, ...]

    @property
    def allowed(self) -> str:
        """The allowed values in words."""
        return f"separated by commas: {', '.join(self.choices)}"

    def parse(self, text: str) -> list[str]:
        """Return the words in their order."""
        word = ChoiceReader(self.choices)
        return list(dict.fromkeys(word.parse(item) for item in text.split(",")))


@dataclass(frozen=True)
class TextReader:
    """Reads any text that is not empty and has no control characters, such as a path or a name."""

    allowed: str = "text without control characters, not empty"

    def parse(self, text: str) -> str:
        """Return the text as it is."""
        if not text.strip() or not text.isprintable():
            raise ValueError(text)
        return text


@dataclass(frozen=True)
class AnyTextReader:
    """Takes any text, such as the value of an environment variable."""

    allowed: str = "any text"

    def parse(self, text: str) -> str:
        """Return the text as it is."""
        return text


@dataclass(frozen=True)
class NameReader:
    """Reads a name for people, of up to `most` printable characters."""

    most: int = 200

    @property
    def allowed(self) -> str:
        """The allowed values in words."""
        return f"1 to {self.most} printable characters"

    def parse(self, text: str) -> str:
        """Return the name without the spaces around it."""
        name = text.strip()
        if not 1 <= len(name) <= self.most or not name.isprintable():
            raise ValueError(text)
        return name


@dataclass(frozen=True)
class NameListReader:
    """Reads names that are separated by commas, up to `most` of them; a name that is repeated counts once."""

    most: int
    name: NameReader = NameReader()

    @property
    def allowed(self) -> str:
        """The allowed values in words."""
        return f"up to {self.most} names, separated by commas, each of {self.name.allowed}"

    def parse(self, text: str) -> list[str]:
        """Return the names in their order."""
        names = list(dict.fromkeys(self.name.parse(item) for item in text.split(",")))
        if len(names) > self.most:
            raise ValueError(text)
        return names


@dataclass(frozen=True)
class KnobReader:
    """Reads the value of one parameter of the engine."""

    parameter: Parameter

    @property
    def allowed(self) -> str:
        """The allowed values in words."""
        suffixes = " (bytes; KiB, MiB, GiB, KB, MB, GB may follow)" if self._is_size else ""
        return self.parameter.allowed + suffixes

    @property
    def _is_size(self) -> bool:
        return self.parameter.name.endswith("_bytes")

    def parse(self, text: str) -> Any:
        """Return the value as the parameter writes it."""
        try:
            return self.parameter.check(self._plain(text.strip()))
        except SpaceError as error:
            raise ValueError(text) from error

    def _plain(self, text: str) -> bool | float | str:
        if isinstance(self.parameter, BooleanParameter):
            return BooleanReader().parse(text)
        if isinstance(self.parameter, NumberParameter):
            special = {str(value): value for value in self.parameter.special}
            if text in special:
                return special[text]
            return parse_size(text) if self._is_size else parse_number(text)
        return text


@dataclass(frozen=True)
class KnobListReader:
    """Reads `knob=value,...` into values by knob; an unknown or repeated knob is not allowed."""

    readers: Mapping[str, KnobReader]

    @property
    def allowed(self) -> str:
        """The allowed values in words."""
        knobs = "; ".join(f"{name}={reader.allowed}" for name, reader in self.readers.items())
        return f"knob=value,... with {knobs}"

    def parse(self, text: str) -> dict[str, Any]:
        """Return the values by knob."""
        values: dict[str, Any] = {}
        for item in text.split(","):
            name, equals, value = item.strip().partition("=")
            if not equals or name not in self.readers or name in values:
                raise ValueError(item)
            values[name] = self.readers[name].parse(value)
        return values
