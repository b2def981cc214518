# SPDX-License-Identifier: Apache-2.0
"""YAML read by the rules of 1.2, and changed in place."""

import pytest
import yaml

from ringtune.tuning.command.any_command.yaml_text import load, value_at, with_value

FILE = """\
# the cluster
name: node  # a name
comm:
  bucket: 25   # megabytes
  overlap: on
  stages:
    - size: 1
    - size: 2
flow: {a: 1, b: [x, y]}
tagged: !mine 3
empty:
"""


def test_plain_words_are_those_of_yaml_1_2() -> None:
    """`on` and `no` are words, numbers with an exponent are numbers."""
    assert {"a": "on", "b": "no", "c": 1e6, "d": True, "e": None, "f": 7, "g": "2024-01-01"} == load(
        "a: on\nb: no\nc: 1e6\nd: true\ne:\nf: 7\ng: 2024-01-01\n"
    )


@pytest.mark.parametrize(
    ("path", "value", "old", "new"),
    [
        (("comm", "bucket"), 50, "  bucket: 25   # megabytes", "  bucket: 50   # megabytes"),
        (("comm", "overlap"), False, "overlap: on", "overlap: false"),
        (("comm", "stages", 1, "size"), 1e-05, "- size: 2", "- size: 1.0e-05"),
        (("flow", "a"), "on", "{a: 1,", "{a: 'on',"),
        (("flow", "b", 0), "1e6", "[x, y]", '["1e6", y]'),
        (("empty",), "no", "empty:", "empty: 'no'"),
        (("name",), "a: b", "name: node  # a name", "name: 'a: b'  # a name"),
    ],
)
def test_a_value_is_replaced_and_nothing_else(path: tuple[str | int, ...], value: object, old: str, new: str) -> None:
    """Comments, layout and tags stay; readers of YAML 1.1 read the same value."""
    changed = with_value(FILE, path, value)  # type: ignore[arg-type]

    assert FILE.replace(old, new, 1) == changed
    assert (True, value) == value_at(changed, path)
    if "!mine" not in old:
        read = yaml.safe_load(changed.replace("!mine ", ""))
        for part in path:
            read = read[part]
        assert value == read


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("comm", "first"), "  first: 7\n  bucket: 25"),
        (("new", "deep", "er"), "new:\n  deep:\n    er: 7\nname: node"),
        (("flow", "c"), "flow: {c: 7, a: 1"),
        (("flow", "c", "d"), "flow: {c: {d: 7}, a: 1"),
        (("comm", "stages", 0, "other"), "    - other: 7\n      size: 1"),
    ],
)
def test_a_missing_key_is_added(path: tuple[str | int, ...], line: str) -> None:
    """The key comes first in its mapping, and the mappings on the way are made."""
    changed = with_value(FILE, path, 7)

    assert line in changed
    assert (True, 7) == value_at(changed, path)
    assert len(FILE.splitlines()) <= len(changed.splitlines())


def test_an_empty_file_gets_its_first_key() -> None:
    """A comment in it stays."""
    assert "# nothing yet\na:\n  b: 1\n" == with_value("# nothing yet", ("a", "b"), 1)
    assert "a: {b: 1}" == with_value("a: {}", ("a", "b"), 1)


@pytest.mark.parametrize("path", [("comm",), ("name", "x"), ("comm", "stages", 5), ("comm", "stages", "x", "y")])
def test_what_cannot_be_put_there_is_refused(path: tuple[str | int, ...]) -> None:
    """A list or a mapping is not overwritten, and no list grows."""
    with pytest.raises(ValueError, match=r"stands there|cannot be added"):
        with_value(FILE, path, 1)
