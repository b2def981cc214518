# SPDX-License-Identifier: Apache-2.0
"""A knob of a file, bound to a command: the value that the command has now, and the words for other values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ringtune.errors import ConfigError
from ringtune.tuner import BooleanParameter, CategoryParameter, NumberParameter, Value
from ringtune.tuning.command.engines import DEFAULT, Knob

from .command_line import Slot, check_appending, flag_slot, switch_index
from .config_files import ConfigFile, key_text
from .knob_file import FORM, KnobEntry, Scalar, as_number, plain_text

ON, OFF = "on", "off"
"""Values of a bool whose default is neither, as words of a category."""


@dataclass(frozen=True)
class BoundFile:
    """A config file and its place in the command.

    Attributes:
        file: The user's file.
        slot: The argument that names it.
        name: Name of its copies.
    """

    file: ConfigFile
    slot: Slot
    name: str

    def copy_in(self, folder: Path) -> Path:
        """Return the path of the copy in a folder, which is never the user's file."""
        path = folder / self.name
        return folder / f"tuned-{self.name}" if path.resolve() == Path(self.slot.text).resolve() else path


@dataclass(frozen=True)
class BoundKnob:
    """A knob of a command.

    Attributes:
        entry: Its entry in the knob file.
        default: Value that leaves the knob unset: the command's own, or "default" where that is not known.
        slot: Place of its flag in the command; None where there is none.
        file: The file that holds it; None where there is none.
    """

    entry: KnobEntry
    default: Value
    slot: Slot | None = None
    file: BoundFile | None = None

    @property
    def name(self) -> str:
        """The knob's name."""
        return self.entry.name

    @property
    def knob(self) -> Knob:
        """The knob as the engine has it."""
        variable = self.entry.passing.variable
        variables = () if variable is None else (variable,)
        switched = (True, False, ON, OFF) if self.entry.type == "bool" else ()  # 1 and 0 of an int are equal to two
        return Knob(self._parameter(), variables, {value: self.text(value) for value in switched})

    @property
    def absent(self) -> Value:
        """Value of a knob whose condition does not hold: its default, and false for a switch."""
        return False if self.entry.passing.is_switch and self.entry.passing.switch else self.default

    def actual(self, value: Value) -> Scalar:
        """Return a config's value with the type that files have."""
        if self.entry.type == "bool" and isinstance(value, str) and value in {ON, OFF}:
            return value == ON
        typed = {plain_text(choice): choice for choice in self.entry.choices or ()}
        return typed.get(value, value) if isinstance(value, str) else value

    def text(self, value: Value) -> str:
        """Return a config's value as the word of a flag, a variable or a placeholder."""
        actual = self.actual(value)
        if self.entry.type != "bool" or not isinstance(actual, bool):
            return plain_text(actual)
        passing = self.entry.passing
        word = passing.on if actual else passing.off
        if word is None:
            return str(int(actual)) if passing.variable else plain_text(actual)
        return word

    def matches(self, value: Value, allowed: Sequence[Scalar]) -> bool:
        """Return whether a config's value is one of a condition's."""
        return plain_text(self.actual(value)) in {plain_text(other) for other in allowed}

    def _parameter(self) -> NumberParameter | CategoryParameter | BooleanParameter:
        entry, default = self.entry, self.default
        if entry.low is not None and entry.high is not None:
            is_inside = not isinstance(default, str) and entry.low <= default <= entry.high
            scale = "log" if entry.scale == "log10" else entry.scale
            step = entry.step if entry.type == "int" else 0
            special = () if is_inside else (default,)
            return NumberParameter(entry.name, entry.low, entry.high, default, scale=scale, step=step, special=special)
        if isinstance(default, bool):
            return BooleanParameter(entry.name, default)
        words = [plain_text(choice) for choice in entry.choices or (ON, OFF)]
        return CategoryParameter(entry.name, tuple(dict.fromkeys([str(default), *words])), str(default))


def bind(entry: KnobEntry, command: Sequence[str], file: BoundFile | None) -> BoundKnob:
    """Return a knob with the command's flag, file and value for it.

    Raises:
        ConfigError: If the command cannot carry the knob.
    """
    try:
        return _bound(entry, command, file)
    except ConfigError as error:
        raise ConfigError(f"knob {entry.name}: {error}") from error


def _bound(entry: KnobEntry, command: Sequence[str], file: BoundFile | None) -> BoundKnob:
    passing = entry.passing
    if passing.is_switch:
        return BoundKnob(entry, _switched(entry, command))
    if passing.flag is not None:
        slot = flag_slot(command, passing.flag, entry.name)
        if slot is None:
            check_appending(command, passing.flag.replace(FORM, ""))
        return BoundKnob(entry, _known(entry, slot.text if slot else None), slot)
    if passing.placeholder is not None:
        _check_placeholder(passing.placeholder, command, file)
    if file is None or passing.key is None:
        return BoundKnob(entry, _known(entry, None), None, file)
    _, found = file.file.value(passing.key)
    if isinstance(found, (list, dict)):
        raise ConfigError(f"{key_text(passing.key)} of {file.file.path} is no single value")
    return BoundKnob(entry, _known(entry, found), None, file)


def effective(knobs: Sequence[BoundKnob], config: Mapping[str, Value]) -> dict[str, Value]:
    """Return the values of a config; a knob whose condition does not hold has the value that leaves it unset.

    The baseline is the command as it is, even where the user's own settings meet no condition.
    """
    if all(config[knob.name] == knob.default for knob in knobs):
        return dict(config)
    values: dict[str, Value] = {}
    by_name = {knob.name: knob for knob in knobs}
    for knob in knobs:
        holds = all(by_name[name].matches(values[name], allowed) for name, allowed in knob.entry.when.items())
        values[knob.name] = config[knob.name] if holds else knob.absent
    return values


def unmet_conditions(knobs: Sequence[BoundKnob]) -> dict[str, tuple[tuple[str, ...], ...]]:
    """Return, for each knob, the knobs of its condition whose values in the command do not meet it."""
    by_name = {knob.name: knob for knob in knobs}
    return {
        knob.name: tuple(
            (name,)
            for name, allowed in knob.entry.when.items()
            if not by_name[name].matches(by_name[name].default, allowed)
        )
        for knob in knobs
    }


def _known(entry: KnobEntry, found: Scalar | None) -> Value:
    """Return the value that leaves a knob unset: the found one, else the file's default, else a word for "unknown"."""
    found = entry.default if found is None else found
    if found is None:
        return DEFAULT
    if entry.type == "bool":
        on, off = entry.passing.on, entry.passing.off
        words = {"true" if on is None else on: True, "false" if off is None else off: False}
        return found if isinstance(found, bool) else words.get(str(found), plain_text(found))
    number = as_number(found) if entry.is_number else None
    return plain_text(found) if number is None else _whole_if_int(entry, number)


def _whole_if_int(entry: KnobEntry, number: float) -> Value:
    return int(number) if entry.type == "int" and number.is_integer() else number


def _switched(entry: KnobEntry, command: Sequence[str]) -> Value:
    """Return the value of a switch in the command."""
    passing = entry.passing
    if switch_index(command, passing.switch) is not None:
        return True
    if switch_index(command, passing.off) is not None:
        return False
    check_appending(command, passing.switch or str(passing.off))
    if passing.switch and passing.off:
        return _known(entry, None)
    return passing.switch is None  # its absence is the other value


def _check_placeholder(placeholder: str, command: Sequence[str], file: BoundFile | None) -> None:
    if file is not None and placeholder not in file.file.text:
        raise ConfigError(f"{file.file.path} has no {placeholder!r}; write it where the value belongs")
    if file is None and not any(placeholder in argument for argument in command[1:]):
        raise ConfigError(f"the command has no {placeholder!r}; write it where the value belongs")
