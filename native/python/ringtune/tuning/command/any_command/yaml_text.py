# SPDX-License-Identifier: Apache-2.0
"""YAML as text: read by the rules of YAML 1.2, changed in place so that comments and layout stay.

Only plain values are constructed: a tag of somebody's own is a part of the text.
"""

import re
from collections.abc import Sequence
from typing import Any, ClassVar, TypeAlias

import yaml

Part: TypeAlias = str | int
"""A key of a mapping, or an index of a list."""
INDENT = 2
_BLOCK_ENDS = re.compile(r"\n\.\.\.\n?$")


class PlainLoader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML has no types
    """Safe loader whose plain words are those of YAML 1.2: `on` is a word, and `1e6` is a number."""

    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}


for _tag, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", r"~|null|Null|NULL|", "~nN"),
    ("int", r"[-+]?[0-9]+|0x[0-9a-fA-F]+", "-+0123456789"),
    (
        "float",
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        "-+.0123456789",
    ),
):
    PlainLoader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"(?:{_pattern})$"), [*_first, ""])


def load(text: str) -> Any:
    """Return the plain values of a text with one document; yaml.YAMLError where it is none."""
    return PlainLoader(text).get_single_data()


def compose(text: str) -> yaml.Node | None:
    """Return the nodes of a text with one document, None for an empty one; yaml.YAMLError where it is none."""
    node: yaml.Node | None = yaml.compose(text, PlainLoader)
    return node


def line_of(node: yaml.Node | None, path: Sequence[object]) -> int:
    """Return the line, from 1, of the node at the end of a path, or of the nearest node on the way there."""
    line = 1
    for part in path:
        if node is None:
            break
        entry = _entry(node, part)
        if entry is None:
            break
        line, node = int(entry[0].start_mark.line) + 1, entry[1]
    return line


def value_at(text: str, path: Sequence[Part]) -> tuple[bool, Any]:
    """Return whether a text has a value at a path, and the value; one with a tag of its own is its text."""
    node = compose(text)
    for part in path:
        entry = None if node is None else _entry(node, part)
        if entry is None:
            return False, None
        node = entry[1]
    if node is None:
        return False, None
    source = text[node.start_mark.index : node.end_mark.index]
    try:
        return True, load(source) if isinstance(node, yaml.ScalarNode) else source
    except yaml.YAMLError:
        return True, source


def with_value(text: str, path: Sequence[Part], value: str | float | bool) -> str:
    """Return a text with a value at a path; the rest of it stays as it is, and a missing key is added.

    Raises:
        ValueError: If the path leads through something that is no mapping, or the value cannot be put there.
    """
    node = compose(text)
    written = _written(value)
    changed = _inserted(text, None, path, written) if node is None else _edited(text, node, path, written)
    found, read = value_at(changed, path)
    if not found or read != value:
        raise ValueError("the value cannot be put there without a change of the lines around it; write the key out")
    return changed


def _edited(text: str, node: yaml.Node, path: Sequence[Part], written: str) -> str:
    for depth, part in enumerate(path):
        entry = _entry(node, part)
        if entry is None:
            return _inserted(text, node, path[depth:], written)
        node = entry[1]
    if not isinstance(node, yaml.ScalarNode):
        raise ValueError("a list or a mapping stands there, not a single value")  # noqa: TRY004  (of the user's file)
    start, end = node.start_mark.index, node.end_mark.index
    gap = " " if start and text[start - 1] == ":" else ""  # an empty value stands right behind its colon
    return f"{text[:start]}{gap}{written}{text[end:]}"


def _inserted(text: str, node: yaml.Node | None, path: Sequence[Part], written: str) -> str:
    """Return the text with a missing key as the first one of its mapping."""
    if node is None:
        return f"{text}{'' if not text or text.endswith(chr(10)) else chr(10)}{_block(path, written, 0)}\n"
    if not isinstance(node, yaml.MappingNode) or not all(isinstance(part, str) for part in path):
        raise ValueError(f"{path[0]!r} is not there, and cannot be added")
    start = node.start_mark.index
    if node.flow_style:
        inner = "".join(f"{{{_written(str(part))}: " for part in path[1:]) + written + "}" * (len(path) - 1)
        comma = ", " if node.value else ""
        return f"{text[: start + 1]}{_written(str(path[0]))}: {inner}{comma}{text[start + 1 :]}"
    column = node.start_mark.column
    return f"{text[:start]}{_block(path, written, column)}\n{' ' * column}{text[start:]}"


def _block(path: Sequence[Part], written: str, column: int) -> str:
    """Return the lines of a nested key, the first without its indent."""
    lines = [f"{' ' * INDENT * depth}{_written(str(part))}:" for depth, part in enumerate(path)]
    return f"\n{' ' * column}".join(lines) + f" {written}"


def _written(value: str | float | bool) -> str:
    """Return a single value the way readers of YAML 1.1 and 1.2 both understand it."""
    written = _BLOCK_ENDS.sub("", str(yaml.safe_dump(value, width=1 << 20))).strip()
    if load(written) != value:  # a word for one of them, a number for the other
        return str(yaml.safe_dump(value, default_style='"', width=1 << 20)).strip()
    return written


def _entry(node: yaml.Node, part: object) -> tuple[yaml.Node, yaml.Node] | None:
    """Return the node that a part names and the one that begins it, the key of a mapping or the item of a list."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value == str(part):
                return key, value
    if isinstance(node, yaml.SequenceNode) and str(part).isdecimal() and int(str(part)) < len(node.value):
        item = node.value[int(str(part))]
        return item, item
    return None
