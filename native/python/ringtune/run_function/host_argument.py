# SPDX-License-Identifier: Apache-2.0
"""The argument `hosts` of `ringtune.run`: a text as for `-H`, a list, a dictionary, or a function that returns one."""

from collections.abc import Iterable, Mapping
from typing import Any

from ringtune.errors import ConfigError
from ringtune.launch.hosts import HostSlots, hosts_text

_FORMS = "'a:2,b:2', ['a', 'b'], [('a', 2), ('b', 2)], {'a': 2, 'b': 2}, or a function that returns one of them"


def host_option(value: Any) -> str | None:
    """Return hosts as the option `-H` has them; None where none are given.

    Args:
        value: The argument. A function is called once, now.

    Raises:
        ConfigError: If it is of another form, or the function raises.
    """
    if callable(value):
        value = _asked(value)
        if not value:
            raise ConfigError("ringtune.run(hosts=FUNCTION): the function named no host; call it once the hosts are up")
    if value is None or isinstance(value, str):
        return value or None
    entries = value.items() if isinstance(value, Mapping) else value
    if not isinstance(entries, Iterable):
        raise _malformed(value)
    return ",".join(_entry(entry, value) for entry in entries) or None


def _asked(function: Any) -> Any:
    try:
        return function()
    except Exception as error:
        raise ConfigError(
            f"ringtune.run(hosts={getattr(function, '__name__', function)!s}): the function raised {error!r}; it names "
            f"the hosts of the job: {_FORMS}"
        ) from error


def _entry(entry: Any, value: Any) -> str:
    """Return one host, with its slots where it has some."""
    if isinstance(entry, str):
        return entry
    try:
        name, slots = entry
        return hosts_text([HostSlots(str(name), int(slots))])
    except (TypeError, ValueError) as error:
        raise _malformed(value) from error


def _malformed(value: Any) -> ConfigError:
    return ConfigError(f"ringtune.run(hosts={value!r}) is not possible; allowed: {_FORMS}")
