# SPDX-License-Identifier: Apache-2.0
"""Files of options in YAML, read with bounds: a file may come from anywhere, and a few bytes must not cost more.

Knows no option. A text is measured before anything is built of it: aliases of aliases stand for more values than memory
holds, and deep nesting takes the parser minutes.
"""

from pathlib import Path
from typing import Any

import yaml

from ringtune.errors import ConfigError
from ringtune.system.printable import shown

MAX_CHARACTERS = 1 << 20
MAX_VALUES = 10_000  # keys, values, lists and mappings, those that aliases stand for included; 64 knobs have some 3,000
MAX_DEPTH = 16  # levels of lists and mappings; a knob file has 6
MAX_VALUE_CHARACTERS = 3000  # limit of one word; a number of so many digits in hex is one that Python prints
MAX_FAULT_CHARACTERS = 400  # limit of the parser's complaint in a message


def read_option_file(path: Path, option: str, loader: type[yaml.SafeLoader] = yaml.SafeLoader) -> tuple[str, Any]:
    """Return the text of a file of options and its values; None for an empty one.

    Args:
        path: The file.
        option: Option that names it, for messages.
        loader: Rules for plain words.

    Raises:
        ConfigError: If it cannot be read, is no YAML, or has more of something than options need.
    """
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(MAX_CHARACTERS + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{option} {path} cannot be read ({error}); give a YAML file") from error
    if len(text) > MAX_CHARACTERS:
        raise ConfigError(f"{option} {path} has more than {MAX_CHARACTERS} characters; give a YAML file of options")
    try:
        _measure(text, loader)
        return text, loader(text).get_single_data()
    except _ExcessError as error:
        raise ConfigError(f"{option} {path}, {error}") from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        where = shown(" ".join(str(error).split()), MAX_FAULT_CHARACTERS)
        raise ConfigError(f"{option} {path} is no YAML ({where}); correct it") from error


class _ExcessError(Exception):
    """A text exceeds a limit that no options need; the message names the excess and its line."""


def _measure(text: str, loader: type[yaml.SafeLoader]) -> None:
    """Raise `_ExcessError` where a text exceeds a limit; no value is built of it."""
    measure = _Measure()
    for event in yaml.parse(text, loader):
        measure.take(event)
        if fault := measure.fault():
            raise _ExcessError(f"line {event.start_mark.line + 1}: {fault}; options need fewer")


class _Measure:
    """Counts values, levels and characters, event by event of the parser."""

    def __init__(self) -> None:
        self._values = 0
        self._characters = 0  # of the latest value
        self._around: list[tuple[str | None, int]] = []  # anchor of each open list or mapping, and the values before it
        self._behind: dict[str, int] = {}  # values behind each anchor; one that is open may contain itself

    def take(self, event: Any) -> None:
        """Count the values and characters of an event."""
        if isinstance(event, yaml.CollectionEndEvent):
            anchor, before = self._around.pop()
            self._name(anchor, self._values - before)
        elif isinstance(event, yaml.AliasEvent):
            self._values += self._behind.get(event.anchor, 0)
        elif isinstance(event, yaml.CollectionStartEvent):
            self._around.append((event.anchor, self._values))
            self._values += 1
            self._name(event.anchor, MAX_VALUES + 1)
        elif isinstance(event, yaml.ScalarEvent):
            self._values += 1
            self._characters = len(event.value)
            self._name(event.anchor, 1)

    def fault(self) -> str:
        """Return the limit that is exceeded, in words; empty for none."""
        if len(self._around) > MAX_DEPTH:
            return f"lists and mappings are over {MAX_DEPTH} levels deep"
        if self._characters > MAX_VALUE_CHARACTERS:
            return f"a value has {self._characters} characters, over {MAX_VALUE_CHARACTERS}"
        if self._values > MAX_VALUES:
            return f"with its aliases written out, the file has over {MAX_VALUES} values"
        return ""

    def _name(self, anchor: str | None, values: int) -> None:
        if anchor is not None:
            self._behind[anchor] = values
