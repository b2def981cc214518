# SPDX-License-Identifier: Apache-2.0
"""Containers and small objects through JSON and back, without a call of their classes' own code."""

import argparse
import enum
import sys
import types
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import pytest
import torch

from ringtune.errors import ConfigError
from ringtune.system.plain_data import decode, encode
from ringtune.torch.elastic.snapshots import snapshot

Pair = namedtuple("Pair", "first second")  # noqa: PYI024  (the kind that has no annotations)


class Point(NamedTuple):
    """A named tuple with a method."""

    x: float
    y: float

    def norm(self) -> float:
        """Return the sum."""
        return self.x + self.y


class Color(enum.Enum):
    """An enum whose values are no plain data."""

    RED = object()


class Level(enum.IntEnum):
    """An enum that is an int."""

    HIGH = 3


class Access(enum.Flag):
    """Flags."""

    READ = 1
    WRITE = 2


@dataclass(frozen=True)
class Options:
    """A dataclass that makes one field of another, and a list that no constructor may make again."""

    rate: float
    shape: tuple[int, ...] = ()
    doubled: float = field(init=False)

    def __post_init__(self) -> None:
        """Fail where it must not be called."""
        if self.rate < 0:
            raise AssertionError
        object.__setattr__(self, "doubled", 2 * self.rate)


@dataclass(slots=True)
class Slotted:
    """A dataclass without a dictionary."""

    step: int
    names: list[str]


class Metrics(dict[str, float]):
    """A dict that only adds a method."""

    def total(self) -> float:
        """Return the sum."""
        return sum(self.values())


class Steps(list[int]):
    """A list with a property."""

    @property
    def latest(self) -> int:
        """The last one."""
        return self[-1]


class Bounded(dict[str, int]):
    """A dict with behaviour of its own."""

    def __setitem__(self, key: str, value: int) -> None:
        super().__setitem__(key, min(value, 3))


class Closing:
    """Base of a class whose instances do something at their end."""

    def __del__(self) -> None:
        """Do something."""


@dataclass
class Temporary(Closing):
    """A dataclass that does something at its end."""

    path: str


def through(value: Any) -> Any:
    """Return a value as another rank gets it."""
    text, leaves = encode(value, lambda _: None)
    assert [] == leaves
    return decode(text, lambda number, leaf: None)


def with_attribute() -> Any:
    """Return an ordered dict as `state_dict()` makes them."""
    state: Any = OrderedDict(b=1, a=2)
    state._metadata = OrderedDict(version=2)
    return state


VALUES = [
    Counter(a=2, b=1),
    defaultdict(list, a=[1]),
    defaultdict(int),
    OrderedDict(b=1, a=2),
    {1, 2},
    frozenset({(1, "a")}),
    deque([1, 2], maxlen=5),
    b"\x00bytes",
    bytearray(b"more"),
    1.5 - 2j,
    range(3, 9, 2),
    Path("/data/run"),
    PurePosixPath("relative"),
    argparse.Namespace(lr=0.5, layers=[1, 2], folder=Path("x")),
    types.SimpleNamespace(inner=types.SimpleNamespace(step=1)),
    Pair(1, [2]),
    Point(1.0, 2.0),
    Color.RED,
    Level.HIGH,
    Access.READ | Access.WRITE,
    Access(0),
    Options(0.1, (1, 2)),
    Slotted(3, ["a"]),
    Metrics(loss=0.5),
    Steps([1, 2]),
    {Color.RED: {Path("a"): Counter(b"x")}},
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_objects_come_back_as_they_were(value: Any) -> None:
    """Type and contents, on another rank and from a copy of the state."""
    for back in (through(value), snapshot(value)):
        assert (type(value), repr(value)) == (type(back), repr(back))


def test_what_comes_back_works_as_before() -> None:
    """Missing keys are made, a full deque lets go, attributes and methods are there, enums are the same."""
    back = through([defaultdict(list), deque([1], maxlen=1), with_attribute(), Metrics(a=1.0, b=2.0), Color.RED])

    back[0]["a"].append(1)
    back[1].append(2)
    assert [{"a": [1]}, [2]] == [dict(back[0]), list(back[1])]
    assert OrderedDict(version=2) == back[2]._metadata == snapshot(with_attribute())._metadata
    assert 3.0 == back[3].total()
    assert Color.RED is back[4]


def test_a_copy_of_a_container_shares_no_tensor() -> None:
    """Ordered dicts and counters of tensors are copied as deep as plain ones."""
    state: dict[str, Any] = OrderedDict(weight=torch.ones(2), inner=defaultdict(list, a=[torch.ones(1)]))

    copied = snapshot(state)
    state["weight"] += 1
    state["inner"]["a"][0] += 1

    assert [[1.0, 1.0], [1.0]] == [copied["weight"].tolist(), copied["inner"]["a"][0].tolist()]


def local_class() -> Any:
    """Return a dataclass that no module holds."""

    @dataclass
    class Local:
        step: int = 0

    return Local()


class Tagged(NamedTuple):
    """Base of a named tuple with more than its fields."""

    step: int


class More(Tagged):
    """A named tuple that has attributes."""


def tagged() -> More:
    """Return one with an attribute."""
    value = More(1)
    value.note = "lost otherwise"  # type: ignore[attr-defined]
    return value


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (Bounded(a=1), "a tests.unit.ringtune.system.test_plain_classes.Bounded .* dict with behaviour of its own"),
        (defaultdict(lambda: 3), "a defaultdict of <function"),
        (Temporary("a"), "Temporary cannot be sent to other ranks, for its class has a `__new__` or `__del__`"),
        (local_class(), "for no module holds its class"),
        (tagged(), "More with attributes besides its fields"),
        (argparse.ArgumentParser(), "^an argparse.ArgumentParser cannot be sent to other ranks; plain data can: None"),
        (argparse.Namespace(file=sys.stdout), "TextIO|EncodedFile|cannot be sent to other ranks; plain data can"),
        (torch.ones(2).max(0), "a torch.return_types.max cannot be sent"),
        (print, "a builtins.builtin_function_or_method cannot be sent"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_what_would_lose_something_is_refused(value: Any, words: str) -> None:
    """The message names the class and the reason."""
    with pytest.raises(ConfigError, match=words):
        through([value])


def test_classes_that_the_receiver_does_not_have_are_refused_by_the_sender() -> None:
    """A class of the program itself is none of the ranks' that `ringtune.run` starts."""
    with pytest.raises(ConfigError, match="its class is the program's own; define it in a module"):
        encode(Options(0.1), lambda _: None, private_modules={__name__})
    encode([Path("a"), argparse.Namespace(a=1)], lambda _: None, private_modules={"argparse"})


def hostile(form: str, *detail: Any, parts: str = "[]") -> bytes:
    """Return text that no `encode` makes."""
    names = ",".join(f'"{one}"' if isinstance(one, str) else str(one) for one in detail)
    return f'{{"form":"{form}","detail":[{names}],"parts":{parts}}}'.encode()


@pytest.mark.parametrize(
    "text",
    [
        hostile("dataclass", "subprocess", "Popen", "[]"),
        hostile("dataclass", "not_imported_here", "Thing", "[]"),
        hostile("dataclass", __name__, "Temporary", "[]"),
        hostile("dict", __name__, "Bounded", "[]"),
        hostile("dict", __name__, "Metrics.total", "[]"),
        hostile("tuple", "os", "stat_result"),
        hostile("tuple", "builtins", "tuple"),
        hostile("tuple", __name__, "Point", parts="[1]"),
        hostile("enum", __name__, "Color", "GREEN"),
        hostile("enum", "builtins", "print", "RED"),
        hostile("flags", __name__, "Color", 1),
        hostile("mapping", "defaultdict", "eval", "[]"),
        hostile("path", "WindowsPath", "a"),
        hostile("namespace", "Popen", "[]"),
        hostile("exec", "1"),
        b'{"form":["list"],"detail":null,"parts":[]}',
    ],
)
def test_text_that_asks_for_more_is_an_error(text: bytes) -> None:
    """No class is imported or called, and none is made that the sender could not have sent."""
    with pytest.raises(ConfigError):
        decode(text, lambda number, leaf: None)
    assert "not_imported_here" not in sys.modules
