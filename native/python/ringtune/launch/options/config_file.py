# SPDX-License-Identifier: Apache-2.0
"""`--config-file`: values of options in a YAML file with Horovod's sections and keys. Reads one file."""

import difflib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ringtune.errors import ConfigError
from ringtune.system.printable import quoted, shown

from .option import Choice, LaunchOption
from .tables import OPTIONS

OPTION = "--config-file"
CONTROLLER_KEY = "controller"
RENAMED_KEYS = {"library_options.ccl_bgt_affinity": "library_options.thread_affinity"}
"""Keys of older versions of Horovod."""


def read_config_file(name: str) -> dict[str, Choice]:
    """Return the options that a file sets, by field.

    Args:
        name: Path of the file.

    Raises:
        ConfigError: If it cannot be read, is not such a file, or has an unknown key or a value that is not allowed.
    """
    return {choice.option.field: choice for choice in _choices(name, _load(name))}


def _load(name: str) -> Mapping[Any, Any]:
    from ringtune.system.option_files import read_option_file  # noqa: PLC0415  (only jobs with such a file need YAML)

    _, content = read_option_file(Path(name), OPTION)
    if content is None:
        return {}
    if not isinstance(content, Mapping):
        raise ConfigError(f"{OPTION} {name} holds no sections; write for example params: {{cycle_time_ms: 2}}")
    return content


def _choices(name: str, content: Mapping[Any, Any]) -> Iterator[Choice]:
    sections = {option.key.partition(".")[0] for option in OPTIONS.values() if option.key}
    for section, entries in content.items():
        if section not in sections:
            raise _unknown(name, shown(section), sections)
        if entries is None:
            continue
        if section == CONTROLLER_KEY:
            yield _controller(name, entries)
        elif isinstance(entries, Mapping):
            yield from _section(name, section, entries)
        else:
            raise ConfigError(f"{OPTION} {name}: {section} is {quoted(entries)}; give it keys with values")


def _section(name: str, section: str, entries: Mapping[Any, Any]) -> Iterator[Choice]:
    by_key = {option.key: option for option in OPTIONS.values() if option.key and option.key != CONTROLLER_KEY}
    for key, value in entries.items():
        full_key = RENAMED_KEYS.get(f"{section}.{shown(key)}", f"{section}.{shown(key)}")
        if full_key not in by_key:
            raise _unknown(name, full_key, by_key)
        if value is not None:
            yield _choice(by_key[full_key], value, f"{name}: {full_key}")


def _controller(name: str, value: object) -> Choice:
    word = shown(value).lower()
    options = {option.field: option for option in OPTIONS.values() if option.key == CONTROLLER_KEY}
    if word not in options:
        raise ConfigError(f"{OPTION} {name}: controller {quoted(value)} is not known; known are {', '.join(options)}")
    return options[word].choose(raw=True, origin=f"{name}: controller {word}")


def _choice(option: LaunchOption, value: object, origin: str) -> Choice:
    if option.reader is None:
        if not isinstance(value, bool):
            raise ConfigError(f"{origin} {quoted(value)} is not possible; allowed: true, false")
        return Choice(option, value, origin)
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise ConfigError(f"{origin} {quoted(value)} is not possible; allowed: {option.reader.allowed}")
    return option.choose(str(value), origin)


def _unknown(name: str, key: str, known: Iterable[str]) -> ConfigError:
    (nearest,) = difflib.get_close_matches(key, list(known), n=1, cutoff=0.0)
    return ConfigError(f"{OPTION} {name}: {key} is not known; did you mean {nearest}?")
