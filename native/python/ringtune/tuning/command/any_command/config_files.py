# SPDX-License-Identifier: Apache-2.0
"""Config files of a command: one value read, or a copy with other values. The user's file is never written."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml

from ringtune.errors import ConfigError

from . import yaml_text
from .yaml_text import Part

MAX_CHARACTERS = 1 << 22
JSON_INDENT = 2
Form = Literal["json", "yaml", "text"]
Change = tuple[Sequence[Part] | str, str | float | bool]
"""A key's path, or a placeholder, and the value for it."""


@dataclass(frozen=True)
class ConfigFile:
    """A file that the command reads.

    Attributes:
        path: Path as the command has it.
        form: JSON and YAML have keys, a text has placeholders.
        text: Its content.
    """

    path: str
    form: Form
    text: str

    @classmethod
    def read(cls, path: str, form: Form) -> "ConfigFile":
        """Read a file.

        Raises:
            ConfigError: If it cannot be read, or does not have the form of such a file.
        """
        try:
            with Path(path).open(encoding="utf-8") as file:
                text = file.read(MAX_CHARACTERS + 1)
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ConfigError(f"{path}, which the command names, cannot be read ({reason})") from error
        if len(text) > MAX_CHARACTERS:
            raise ConfigError(f"{path} has more than {MAX_CHARACTERS} characters; that is no config file")
        found = cls(path, form, text)
        found.value((), of="its content")
        return found

    def value(self, key: Sequence[Part], of: str = "") -> tuple[bool, Any]:
        """Return whether the file has a value at a key, and the value.

        Args:
            key: Path of the key.
            of: Name of the value, for the error.

        Raises:
            ConfigError: If the file is no JSON or YAML.
        """
        try:
            if self.form == "json":
                return _value_in(json.loads(self.text), key)
            return (False, None) if self.form == "text" else yaml_text.value_at(self.text, key)
        except (ValueError, RecursionError, yaml.YAMLError) as error:
            name = of or key_text(key)
            why = " ".join(str(error).split())
            hint = "; comments are no JSON" if self.form == "json" and ("//" in self.text or "#" in self.text) else ""
            raise ConfigError(f"{self.path}: {name} is no {self.form.upper()} ({why}){hint}; correct it") from error

    def with_changes(self, changes: Sequence[Change]) -> str:
        """Return the content with other values.

        Raises:
            ConfigError: If a placeholder is not in the text, or a key cannot be added.
        """
        text = self.text
        try:
            if self.form == "json":
                content = json.loads(text)
                for key, value in changes:
                    _put(content, key, value)
                return json.dumps(content, indent=JSON_INDENT, ensure_ascii=False) + "\n"
            for key, value in changes:
                if self.form == "text":
                    text = text.replace(str(key), str(value))
                else:
                    text = yaml_text.with_value(text, key, value)
        except (ValueError, LookupError, TypeError, RecursionError, yaml.YAMLError) as error:
            raise ConfigError(f"{self.path}: {key_text(key)} cannot be set: {error}") from error
        return text


def key_text(key: Sequence[Part]) -> str:
    """Return a key's path in words."""
    return ".".join(map(str, key)) if not isinstance(key, str) else key


def _value_in(content: Any, key: Sequence[Part]) -> tuple[bool, Any]:
    for part in key:
        if isinstance(content, Mapping) and str(part) in content:
            content = content[str(part)]
        elif isinstance(content, list) and str(part).isdecimal() and int(part) < len(content):
            content = content[int(part)]
        else:
            return False, None
    return True, content


def _put(content: Any, key: Sequence[Part], value: str | float | bool) -> None:
    """Set a key; mappings on the way to it are made where they are missing."""
    *way, last = key
    for part in way:
        content = content[int(part)] if isinstance(content, list) else content.setdefault(str(part), {})
    if not isinstance(content, (dict, list)):
        raise TypeError(f"the way to it leads through {content!r}, which is no mapping")
    content[int(last) if isinstance(content, list) else str(last)] = value  # type: ignore[index]  # checked above
