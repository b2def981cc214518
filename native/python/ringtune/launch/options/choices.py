# SPDX-License-Identifier: Apache-2.0
"""Options that were given, by command line or file: their values, the variables that they set, errors, warnings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ringtune.errors import ConfigError
from ringtune.launch.environment import KEPT_PREFIXES, PLACE_NAMES
from ringtune.settings.horovod_names import rivals

from .config_file import CONTROLLER_KEY, read_config_file
from .option import Choice, HasNoEffect, IsRefused, SetsVariable
from .tables import OPTIONS


@dataclass(frozen=True)
class Choices:
    """The options of one launch.

    Attributes:
        by_field: Those that were given, by field.
    """

    by_field: Mapping[str, Choice]

    def value(self, field: str, default: Any = None) -> Any:
        """Return the value of an option that the launcher uses itself, or the default where it was not given."""
        choice = self.by_field.get(field)
        return default if choice is None else choice.value

    def given(self, *fields: str) -> list[str]:
        """Return where those of some options stand that were given."""
        return [self.by_field[field].origin for field in fields if field in self.by_field]

    def warnings(self) -> list[str]:
        """Return a sentence for each option that has no effect and was turned on."""
        return [
            f"{choice.origin} has no effect: {choice.option.effect.reason}"
            for choice in self.by_field.values()
            if isinstance(choice.option.effect, HasNoEffect) and choice.value is not False
        ]

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return an environment in which the options hold: other spellings of their variables are taken out of it.

        Args:
            environ: The environment without them.
        """
        changes = {
            choice.option.effect.name: choice.option.effect.write(choice.value)
            for choice in self.by_field.values()
            if isinstance(choice.option.effect, SetsVariable)
        }
        gone = {rival for name in changes for rival in rivals(name)} - set(changes)
        return {**{name: value for name, value in environ.items() if name not in gone}, **changes}


def read_choices(given: Mapping[str, Any]) -> Choices:
    """Return the options of a command line and of the file that it names; the command line wins.

    Args:
        given: Values by field as the command line has them: True or False for a switch, a text, or texts; None and an
            empty sequence for an option that was not given.

    Raises:
        ConfigError: If a value is not allowed, or a job cannot have the effect of an option.
    """
    typed = {
        field: OPTIONS[field].choose(raw, OPTIONS[field].names[0])
        for field, raw in given.items()
        if raw is not None and raw not in ((), [])
    }
    file = typed.get("config_file")
    choices = typed if file is None else {**_beside(typed, read_config_file(file.value)), **typed}
    for choice in choices.values():
        refuse(choice)
    return Choices(choices)


def _beside(typed: Mapping[str, Choice], filed: Mapping[str, Choice]) -> dict[str, Choice]:
    """Return the options of a file that hold beside those of the command line, which names one controller at most."""
    names_controller = any(choice.option.key == CONTROLLER_KEY for choice in typed.values())
    return {f: choice for f, choice in filed.items() if not (names_controller and choice.option.key == CONTROLLER_KEY)}


def sent_variables(assignments: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that `--env` names.

    Args:
        assignments: `NAME=VALUE`, or `NAME` for the launcher's own value.
        environ: The launcher's environment.

    Raises:
        ConfigError: If a name is malformed, is the launcher's own business, or has no value.
    """
    sent: dict[str, str] = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not name.isidentifier() or not name.isascii():
            raise ConfigError(f"--env {assignment} names no variable; write --env NAME=VALUE, or --env NAME")
        if name in PLACE_NAMES or name.startswith(KEPT_PREFIXES):
            raise ConfigError(f"--env {name} is not possible: the launcher sets it itself, or keeps it from the ranks")
        if not equals and name not in environ:
            raise ConfigError(f"--env {name}: this process has no such variable; write --env {name}=VALUE, or set it")
        sent[name] = value if equals else environ[name]
    return sent


def refuse(choice: Choice) -> None:
    """Raise `ConfigError`, with the replacement, for an option whose effect a job cannot have."""
    effect = choice.option.effect
    if isinstance(effect, IsRefused) and choice.value is not False:
        raise ConfigError(f"{choice.origin}: {effect.reason.replace('{value}', str(choice.value))}")
