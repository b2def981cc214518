# SPDX-License-Identifier: Apache-2.0
"""Arguments of the user's command: flags and files found in it, and the same command with others in their place."""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ringtune.errors import ConfigError

from .knob_file import FORM, FilePlace

SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh"})


@dataclass(frozen=True)
class Slot:
    """A place in the command.

    Attributes:
        index: The argument's place, from 0.
        count: Number of arguments that belong to it.
        prefix: Beginning of the argument that stays.
        suffix: End of the argument that stays.
        text: The value there.
    """

    index: int
    count: int
    prefix: str
    suffix: str
    text: str

    def filled(self, text: str, command: Sequence[str]) -> tuple[str, ...]:
        """Return the arguments of this place with another value."""
        return (*command[self.index : self.index + self.count - 1], f"{self.prefix}{text}{self.suffix}")


def flag_slot(command: Sequence[str], flag: str, knob: str) -> Slot | None:
    """Return the place of a flag's value, None where the command does not have the flag.

    Args:
        command: Program and arguments.
        flag: `--flag`, or a form with `{}` for the value.
        knob: Name of the knob, for the advice.

    Raises:
        ConfigError: If it is there more than once, or ends the command.
    """
    found = [slot for index in range(1, len(command)) if (slot := _slot_at(command, index, flag))]
    if len(found) > 1:
        matched = ", ".join(" ".join(command[slot.index : slot.index + slot.count]) for slot in found)
        raise ConfigError(
            f"{flag} matches the command {len(found)} times: {matched}; write @{knob}@ where the value belongs in the "
            f"command, and in the knob file pass: {{placeholder: '@{knob}@'}}, with a default"
        )
    return found[0] if found else None


def _slot_at(command: Sequence[str], index: int, flag: str) -> Slot | None:
    """Return the place of a flag's value if the flag is the argument of an index."""
    prefix, _, suffix = flag.partition(FORM)
    name, argument = prefix.removesuffix("="), command[index]
    if argument == name and (prefix.endswith("=") or FORM not in flag):
        if index + 1 == len(command):
            raise ConfigError(f"the command ends with {name}, without a value behind it")
        return Slot(index, 2, "", "", command[index + 1])
    joined = prefix if FORM in flag else f"{name}="
    value = argument[len(joined) : len(argument) - len(suffix)]
    return Slot(index, 1, joined, suffix, value) if value and argument == f"{joined}{value}{suffix}" else None


def has_flag(command: Sequence[str], flags: Sequence[str]) -> bool:
    """Return whether the command has one of the flags, alone or with a value."""
    return any(argument == flag or argument.startswith(f"{flag}=") for argument in command[1:] for flag in flags)


def switch_index(command: Sequence[str], switch: str | None) -> int | None:
    """Return the place of a switch, None where it is absent.

    Raises:
        ConfigError: If it is there more than once.
    """
    found = [index for index, argument in enumerate(command) if index and argument == switch]
    if len(found) > 1:
        raise ConfigError(f"the command has {switch} {len(found)} times; keep one of them")
    return found[0] if found else None


def file_slot(command: Sequence[str], place: FilePlace) -> Slot:
    """Return the place of a file.

    Raises:
        ConfigError: If the command does not name it.
    """
    slots = [slot for flag in place.after if (slot := _slot_after(command, flag))] if place.after else []
    slots += _named_slots(command, place.path) if place.path else []
    if not slots:
        wanted = f"no {place.path}" if place.path else f"no file after {' or '.join(place.after)}"
        raise ConfigError(
            f"the command names {wanted}; each launch reads a copy in its place, so its path has to be an argument"
        )
    return slots[0]


def _slot_after(command: Sequence[str], flag: str) -> Slot | None:
    """Return the file behind a flag; None for a switch of that name, with another flag or the end behind it."""
    for index, argument in enumerate(command[1:], 1):
        if argument.startswith(f"{flag}="):
            return Slot(index, 1, f"{flag}=", "", argument.removeprefix(f"{flag}="))
        if argument == flag and index + 1 < len(command) and not command[index + 1].startswith("-"):
            return Slot(index, 2, "", "", command[index + 1])
    return None


def _named_slots(command: Sequence[str], path: str) -> list[Slot]:
    found = []
    for index, argument in enumerate(command[1:], 1):
        prefix, sign, value = argument.rpartition("=")
        if _is_same(argument, path):
            found.append(Slot(index, 1, "", "", argument))
        elif sign and _is_same(value, path):
            found.append(Slot(index, 1, f"{prefix}=", "", value))
    return found


def _is_same(argument: str, path: str) -> bool:
    if argument == path:
        return True
    with contextlib.suppress(OSError, ValueError):
        return Path(path).exists() and Path(argument).samefile(path)
    return False


def check_appending(command: Sequence[str], flag: str) -> None:
    """Refuse a flag at the end of a command that would not get it.

    Raises:
        ConfigError: If the command is a shell with a script in an argument.
    """
    words = [Path(command[0]).name, *command[1:2]]
    if words[0] in SHELLS and len(words) > 1 and words[1].startswith("-") and "c" in words[1]:
        raise ConfigError(
            f"{flag} at the end of {' '.join(words)} would not reach the program inside; put a placeholder such as "
            "@value@ into the script, and name it in the knob file"
        )


@dataclass(frozen=True)
class Rewrite:
    """Changes of a command.

    Attributes:
        at: New arguments by the place of the first old one, and how many old ones they replace.
        appended: Arguments at the end.
        placeholders: Texts to replace in every argument.
    """

    at: Mapping[int, tuple[int, tuple[str, ...]]]
    appended: tuple[str, ...]
    placeholders: Mapping[str, str]

    def of(self, command: Sequence[str]) -> tuple[str, ...]:
        """Return the command with the changes."""
        arguments: list[str] = []
        index = 0
        while index < len(command):
            count, new = self.at.get(index, (1, (self._filled(command[index]),)))
            arguments += new
            index += count
        return (*arguments, *self.appended)

    def _filled(self, argument: str) -> str:
        for placeholder, text in self.placeholders.items():
            argument = argument.replace(placeholder, text)
        return argument
