# SPDX-License-Identifier: Apache-2.0
"""One option of `ringtune run` as a row of a table: spellings, reader, help and effect. Pure."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from ringtune.errors import ConfigError
from ringtune.settings.parsing import Reader


@dataclass(frozen=True)
class Launches:
    """The launcher itself uses the value."""


@dataclass(frozen=True)
class AlwaysSo:
    """The option is in effect in every job anyway."""


@dataclass(frozen=True)
class SetsVariable:
    """The option sets a variable of all ranks, in the place of the environment's value.

    Attributes:
        name: One of ringtune's variables, or one of Horovod's that ringtune translates.
        write: Returns the variable's text for the option's value.
    """

    name: str
    write: Callable[[Any], str]


@dataclass(frozen=True)
class HasNoEffect:
    """The option has no counterpart and changes no result: one warning, and the job goes on.

    Attributes:
        reason: Clause with the cause and the replacement.
    """

    reason: str


@dataclass(frozen=True)
class IsRefused:
    """A job cannot have the option's effect: an error before any rank starts.

    Attributes:
        reason: Clause with the cause and the replacement; `{value}` stands for the option's value.
    """

    reason: str


Effect: TypeAlias = Launches | AlwaysSo | SetsVariable | HasNoEffect | IsRefused


@dataclass(frozen=True)
class LaunchOption:
    """A row of the tables.

    Attributes:
        names: Spellings; messages use the first.
        help: One or two sentences for `--help`.
        effect: The option's effect.
        reader: Reads the value's text; None for a switch.
        metavar: The value in `--help`; empty for a switch.
        opposites: Spellings that turn a switch off.
        key: Place of the value in Horovod's configuration file, as `section.key`; empty where it has none.
        words: Number of words in the value.
        is_repeatable: Whether the option may be given several times; its value is then a list.
    """

    names: tuple[str, ...]
    help: str
    effect: Effect
    reader: Reader | None = None
    metavar: str = ""
    opposites: tuple[str, ...] = ()
    key: str = ""
    words: int = 1
    is_repeatable: bool = False

    @property
    def field(self) -> str:
        """The option's name as a Python identifier: its first long spelling."""
        long_name = next(name for name in self.names if name.startswith("--"))
        return long_name.removeprefix("--").replace("-", "_")

    def choose(self, raw: Any, origin: str) -> "Choice":
        """Return the option with a value.

        Args:
            raw: True or False for a switch; otherwise the value's text, or a sequence of texts.
            origin: Source of the value, as messages name it.

        Raises:
            ConfigError: If the value is not allowed.
        """
        if self.reader is None:
            return Choice(self, raw, origin if raw or not self.opposites else self.opposites[0])
        reader = self.reader
        try:
            is_one = isinstance(raw, str)
            value = reader.parse(raw) if is_one else tuple(reader.parse(text) for text in raw)
        except ValueError as error:
            shown = raw if isinstance(raw, str) else " ".join(raw)
            raise ConfigError(f"{origin} {shown} is not possible; allowed: {reader.allowed}") from error
        return Choice(self, value, origin)


@dataclass(frozen=True)
class Choice:
    """An option that was given.

    Attributes:
        option: The row.
        value: The result of its reader; True or False for a switch.
        origin: Source of the value: a spelling, or file and key.
    """

    option: LaunchOption
    value: Any
    origin: str


@dataclass(frozen=True)
class OptionGroup:
    """Options that belong together.

    Attributes:
        title: Heading in `--help`.
        options: In the order of `--help`.
    """

    title: str
    options: tuple[LaunchOption, ...]
