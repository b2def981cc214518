# SPDX-License-Identifier: Apache-2.0
"""The knob file: YAML that describes the knobs of a command. Reads and checks one file; knows no command."""

import difflib
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator, model_validator

from ringtune.errors import ConfigError
from ringtune.system.option_files import read_option_file
from ringtune.system.printable import quoted, shown

from . import yaml_text

OPTION = "--knobs"
MAX_FAULT_CHARACTERS = 1000  # limit of a fault's description: choices may be many
MAX_KNOBS = 64
NAME = r"^[A-Za-z_][A-Za-z0-9_.-]*$"
FORM = "{}"
"""Place of the value in a flag that is one word, as in `--bucket={}`."""
EXAMPLE = "knobs: [{name: bucket, type: int, low: 1, high: 100, pass: {flag: --bucket}}]"
ARTICLES = {"int": "an int", "float": "a float", "choice": "a choice", "bool": "a bool"}
"""Types with their article, for messages."""
Scalar = bool | int | float | str


def _as_tuple(value: Any) -> Any:
    return (value,) if isinstance(value, (str, bool, int, float)) else value


def _as_key(value: Any) -> Any:
    return tuple(value.split(".")) if isinstance(value, str) else value


def _as_place(value: Any) -> Any:
    return {"path": value} if isinstance(value, str) else value


def _no_boolean(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError(f"{str(value).lower()} is no number")  # noqa: TRY004  (pydantic reports ValueErrors)
    return value


Words = Annotated[tuple[str, ...], BeforeValidator(_as_tuple)]
Values = Annotated[tuple[Scalar, ...], BeforeValidator(_as_tuple), Field(min_length=1)]
Key = Annotated[tuple[str | int, ...], BeforeValidator(_as_key), Field(min_length=1)]
Number = Annotated[float, BeforeValidator(_no_boolean), Field(allow_inf_nan=False)]


class _Strict(BaseModel):
    """Refuses keys that it does not know; does not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class FilePlace(_Strict):
    """A file among the arguments of the command.

    Attributes:
        path: The path as the command has it.
        after: Flags that a path follows, `--flag FILE` or `--flag=FILE`; the first that the command has.
    """

    path: str | None = None
    after: Words = ()

    @model_validator(mode="after")
    def _one_way(self) -> "FilePlace":
        if (self.path is None) == (not self.after):
            raise ValueError("give either a path, or {after: --flag}")
        return self

    def __str__(self) -> str:
        """Return the place in words."""
        return self.path or f"a file after {' or '.join(self.after)}"


Place = Annotated[FilePlace, BeforeValidator(_as_place)]


class Passing(_Strict):
    """The way of a value to the program: exactly one of the first seven.

    Attributes:
        variable: Environment variable.
        flag: `--flag` for two words, `--flag={}` or `-O{}` for one.
        switch: Flag that is there for true and absent for false.
        placeholder: Text in the command that the value replaces; with `text`, in that file.
        json_file: JSON file, changed at `key`.
        yaml_file: YAML file, changed at `key`.
        text_file: Text file, whose `placeholder` the value replaces.
        key: Path in the JSON or YAML file: `a.b.c`, or a list where a key has a dot.
        on: Word for true; 1 in variables, true elsewhere.
        off: Word for false; 0 in variables, false elsewhere. For a switch: the flag that stands for false.
    """

    variable: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] | None = None
    flag: Annotated[str, Field(pattern=r"^\S+$")] | None = None
    switch: Annotated[str, Field(pattern=r"^\S+$")] | None = None
    placeholder: Annotated[str, Field(min_length=1)] | None = None
    json_file: Place | None = Field(None, alias="json")
    yaml_file: Place | None = Field(None, alias="yaml")
    text_file: Place | None = Field(None, alias="text")
    key: Key | None = None
    on: str | None = None
    off: str | None = None

    @model_validator(mode="after")
    def _one_way(self) -> "Passing":
        ways = (self.variable, self.flag, self.json_file, self.yaml_file, self.placeholder or self.text_file)
        if sum(way is not None for way in ways) + self.is_switch != 1:
            raise ValueError("give one of variable, flag, switch, placeholder, json, yaml, text")
        if self.text_file is not None and self.placeholder is None:
            raise ValueError("a text file needs a placeholder, the text in it that the value replaces")
        if (self.key is not None) != bool(self.json_file or self.yaml_file):
            raise ValueError("key goes with json and yaml, and these need one, such as optimizer.bucket_size")
        return self

    @property
    def is_switch(self) -> bool:
        """True for a flag whose presence is the value."""
        others = (self.variable, self.flag, self.placeholder, self.json_file, self.yaml_file)
        return self.switch is not None or (bool(self.off) and all(other is None for other in others))

    @property
    def file(self) -> FilePlace | None:
        """The file that is rewritten, if there is one."""
        return self.json_file or self.yaml_file or self.text_file


class KnobEntry(_Strict):
    """One knob.

    Attributes:
        name: Letters, digits, `_`, `.` and `-`.
        type: int, float, choice or bool.
        passing: The way of the value to the program.
        low: Smallest number.
        high: Largest number.
        scale: Scale on which equal steps matter equally.
        step: Resolution of the search for an int.
        choices: Values of a choice.
        default: Value that the program uses where the knob is not set.
        when: Other knobs and their values: this one is set only beside these.
        if_flag: Flags of which the command must have one; without it there is no such knob.
        unless_flag: Flags that the command may not have.
        if_key: Keys of the knob's file, and the values of which one must stand there.
    """

    name: Annotated[str, Field(pattern=NAME)]
    type: Literal["int", "float", "choice", "bool"]
    passing: Passing = Field(alias="pass")
    low: Number | None = None
    high: Number | None = None
    scale: Literal["linear", "log2", "log10"] = "linear"
    step: Annotated[int, Field(ge=1)] = 1
    choices: Values | None = None
    default: Scalar | None = None
    when: Mapping[str, Values] = {}
    if_flag: Words = ()
    unless_flag: Words = ()
    if_key: Mapping[str, Values] = {}

    @property
    def is_number(self) -> bool:
        """True for an int or a float."""
        return self.type in {"int", "float"}

    @field_validator("default", mode="before")
    @classmethod
    def _plain(cls, value: Any) -> Any:
        if value is not None and not isinstance(value, (bool, int, float, str)):
            raise ValueError("a single value is allowed")
        return value

    @model_validator(mode="after")
    def _is_possible(self) -> "KnobEntry":
        self._check_range() if self.is_number else self._check_choices()
        self._check_passing()
        if self.default is not None:
            self._check_default(self.default)
        return self

    def _check_passing(self) -> None:
        passing = self.passing
        if passing.is_switch and self.type != "bool":
            raise ValueError(f"a switch is a bool, not {ARTICLES[self.type]}")
        if not (passing.on is None and passing.off is None) and self.type != "bool":
            raise ValueError(f"on and off are words of a bool, not of {ARTICLES[self.type]}")
        if passing.placeholder is not None and self.default is None:
            raise ValueError("a placeholder needs a default: the first launches have it")
        if self.if_key and passing.file is None:
            raise ValueError("if_key reads the knob's own file; this one has none")

    def _check_range(self) -> None:
        if self.low is None or self.high is None:
            raise ValueError(f"{ARTICLES[self.type]} needs low and high")
        if self.choices is not None:
            raise ValueError(f"choices belong to a choice, not to {ARTICLES[self.type]}")
        if not self.low < self.high:
            raise ValueError(f"low {self.low:g} is not below high {self.high:g}")
        if self.scale != "linear" and self.low <= 0:
            raise ValueError(f"a {self.scale} scale needs a low above 0, not {self.low:g}")
        if self.type == "int" and not (self.low.is_integer() and self.high.is_integer()):
            raise ValueError(f"an int needs whole numbers, not {self.low:g} and {self.high:g}")

    def _check_choices(self) -> None:
        if self.low is not None or self.high is not None or self.scale != "linear":
            raise ValueError(f"low, high and scale belong to numbers, not to {ARTICLES[self.type]}")
        texts = [plain_text(choice) for choice in self.choices or ()]
        if self.type == "bool" and texts:
            raise ValueError("a bool has no choices; they are true and false")
        if self.type == "choice" and not 2 <= len(texts) == len(set(texts)):
            raise ValueError("a choice needs at least two choices, all of them different")

    def _check_default(self, default: Scalar) -> None:
        if self.type == "bool" and not isinstance(default, bool):
            raise ValueError(f"default {default!r} is not possible; allowed: true, false")
        texts = [plain_text(choice) for choice in self.choices or ()]
        if self.type == "choice" and plain_text(default) not in texts:
            raise ValueError(f"default {default!r} is not possible; allowed: {', '.join(texts)}")
        if self.is_number and as_number(default) is None:
            raise ValueError(f"default {default!r} is no number")


class KnobFile(_Strict):
    """A knob file.

    Attributes:
        knobs: The knobs, in the order of the report.
        score_regex: Finds the score; the option `--score-regex` overrides it.
        higher_is_better: Direction of that score.
        result_regex: Finds the results; the option `--result-regex` overrides it.
    """

    knobs: Annotated[tuple[KnobEntry, ...], Field(min_length=1, max_length=MAX_KNOBS)]
    score_regex: str | None = None
    higher_is_better: bool = False
    result_regex: str | None = None

    @model_validator(mode="after")
    def _knows_conditions(self) -> "KnobFile":
        earlier: set[str] = set()
        for knob in self.knobs:
            unknown = [name for name in knob.when if name not in earlier]
            if unknown:
                known = ", ".join(sorted(earlier)) or "none"
                raise ValueError(f"when of {knob.name} names {unknown[0]}; knobs before it: {known}")
            earlier.add(knob.name)
        return self


def plain_text(value: Scalar) -> str:
    """Return a value as text, as YAML and JSON write it."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def as_number(value: object) -> float | None:
    """Return a finite number, or the one that a text holds; None where there is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def read_knob_file(path: Path) -> KnobFile:
    """Return the knobs of a file.

    Raises:
        ConfigError: If it cannot be read, or is no such file; with file, line, key and value.
    """
    text, content = read_option_file(path, OPTION, yaml_text.PlainLoader)
    if not isinstance(content, Mapping):
        raise ConfigError(f"{OPTION} {path} holds no knobs; write for example {EXAMPLE}")
    try:
        return KnobFile.model_validate(content)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        line = yaml_text.line_of(yaml_text.compose(text), fault["loc"])
        fault_text = shown(_fault_text(content, fault), MAX_FAULT_CHARACTERS)
        raise ConfigError(f"{OPTION} {path}, line {line}: {fault_text}") from error


def _fault_text(content: Mapping[str, Any], fault: Mapping[str, Any]) -> str:
    """Return the fault of a file in words: place, value, allowed values."""
    place: Sequence[Any] = fault["loc"]
    words = [shown(part) for part in place]
    if words[:1] == ["knobs"] and len(words) > 1:
        words = [f"knob {_name_of(content, place[1])}:", *words[2:]]
    where = " ".join(words) or "the file"
    if fault["type"] == "missing":
        return f"{where} is missing"
    if fault["type"] == "extra_forbidden":
        known = _known_keys(place)
        nearest = difflib.get_close_matches(str(place[-1]), known, n=1, cutoff=0.6)
        hint = f"; did you mean {nearest[0]}?" if nearest else ""
        return f"{where} is not known{hint}; known are {', '.join(known)}"
    reason = str(fault["msg"]).removeprefix("Value error, ")
    reason = reason[0].lower() + reason[1:] if reason.startswith("Input") else reason
    value = fault["input"]
    given = f" {quoted(value)}" if isinstance(value, (bool, int, float, str)) else ""
    return f"{where}{given}: {reason}".replace("::", ":")


def _name_of(content: Mapping[str, Any], index: int) -> str:
    entry = content["knobs"][index]
    named = entry.get("name") if isinstance(entry, Mapping) else None
    return shown(named) if named is not None else f"number {index + 1}"


def _known_keys(place: Sequence[Any]) -> list[str]:
    model: type[BaseModel] = KnobFile
    if len(place) > 2:
        model = KnobEntry
    if "pass" in place[:-1]:
        model = FilePlace if place[-2] != "pass" else Passing
    return [field.alias or name for name, field in model.model_fields.items()]
