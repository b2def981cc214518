# SPDX-License-Identifier: Apache-2.0
"""The targets command, deepspeed and megatron: a knob file and a command become an engine."""

import hashlib
import json
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from ringtune.errors import ConfigError
from ringtune.tuner import Config
from ringtune.tuning.command.engines import Engine, WinnerFile
from ringtune.tuning.command.engines.engine import commented, shell_file

from .bound_knobs import BoundFile, BoundKnob, bind, effective, unmet_conditions
from .command_line import Rewrite, file_slot, has_flag, switch_index
from .config_files import Change, ConfigFile, Form
from .knob_file import FORM, FilePlace, KnobEntry, KnobFile, Scalar, plain_text, read_knob_file

COMMAND = "command"
COMMAND_TARGETS = (COMMAND, "deepspeed", "megatron")
"""Targets whose knobs come from a file; all but the first have one in the package."""
SCRIPT, ENVIRONMENT = "command.sh", "environment.sh"


def knobs_for(target: str, path: Path | None) -> KnobFile:
    """Return the knobs of a target: the user's file, or the one in the package.

    Raises:
        ConfigError: If there is none, or it is wrong.
    """
    if path is not None:
        return read_knob_file(path)
    if target == COMMAND:
        raise ConfigError("--target command needs --knobs FILE, the description of the knobs in YAML")
    with resources.as_file(resources.files(__package__) / "presets" / f"{target}.yaml") as preset:
        return read_knob_file(preset)


def command_engine(target: str, knob_file: KnobFile, command: Sequence[str]) -> Engine:
    """Return the engine that a knob file makes of a command.

    Args:
        target: Its name.
        knob_file: The knobs.
        command: The user's command.

    Raises:
        ConfigError: If a file or a flag of the command is not as the knob file says, or no knob fits.
    """
    try:
        return _Plan.of(knob_file, tuple(command)).engine(target, knob_file)
    except ConfigError as error:
        raise ConfigError(f"--target {target}: {error}") from error


@dataclass(frozen=True)
class _Plan:
    """Knobs and files of one command."""

    command: tuple[str, ...]
    knobs: tuple[BoundKnob, ...]
    files: tuple[BoundFile, ...]

    @classmethod
    def of(cls, knob_file: KnobFile, command: tuple[str, ...]) -> "_Plan":
        files = _Files(command)
        misfits: list[str] = []
        knobs: dict[str, BoundKnob] = {}
        for entry in knob_file.knobs:
            misfit = _misfit(entry, command, files) or _unmet(entry, knobs)
            if misfit:
                misfits.append(misfit)
            elif entry.name in knobs:
                raise ConfigError(f"two knobs of this command have the name {entry.name}")
            else:
                place = entry.passing.file
                knobs[entry.name] = bind(entry, command, None if place is None else files.at(place, entry))
        if not knobs:
            raise ConfigError(f"no knob fits this command: {'; '.join(misfits)}")
        return cls(command, tuple(knobs.values()), files.used)

    def engine(self, target: str, knob_file: KnobFile) -> Engine:
        texts = [bound.file.text for bound in self.files]
        described = json.dumps([knob_file.model_dump(mode="json"), *texts]).encode()
        return Engine(
            name=target,
            knobs=tuple(knob.knob for knob in self.knobs),
            winner_files=self.winner_files,
            trial_files=self.trial_files,
            is_for_gpus=True,
            command_of=self.command_of,
            effective=self.effective,
            needs=unmet_conditions(self.knobs),
            identity=hashlib.sha256(described).hexdigest(),
        )

    def effective(self, config: Config) -> Config:
        return Config(effective(self.knobs, config))

    def trial_files(self, config: Config, folder: Path, comment: str) -> tuple[WinnerFile, ...]:
        del comment
        return tuple(
            WinnerFile(bound.copy_in(folder).name, bound.file.with_changes(changes).encode())
            for bound in self.files
            if (changes := self._changes(bound, config))
        )

    def command_of(self, config: Config, folder: Path, command: Sequence[str]) -> tuple[str, ...]:
        at = {
            bound.slot.index: (bound.slot.count, bound.slot.filled(str(bound.copy_in(folder)), command))
            for bound in self.files
            if self._changes(bound, config)
        }
        appended: list[str] = []
        for knob in self._chosen(config):
            flag, text = knob.entry.passing.flag, knob.text(config[knob.name])
            if knob.entry.passing.is_switch:
                self._switch(knob, bool(knob.actual(config[knob.name])), at, appended)
            elif knob.slot is not None:
                at[knob.slot.index] = (knob.slot.count, knob.slot.filled(text, command))
            elif flag is not None:
                appended += [flag.replace(FORM, text)] if FORM in flag else [flag, text]
        return Rewrite(at, tuple(appended), self._placeholders(config)).of(command)

    def winner_files(self, config: Config, folder: Path, comment: str) -> tuple[WinnerFile, ...]:
        variables = {
            knob.entry.passing.variable: shlex.quote(knob.text(config[knob.name]))
            for knob in self._chosen(config)
            if knob.entry.passing.variable is not None
        }
        exports = {name: text for name, text in variables.items() if name}
        line = shlex.join(self.command_of(config, folder, self.command))
        lines = [
            "#!/bin/sh",
            *commented(comment),
            f"cd {shlex.quote(os.getcwd())} || exit",  # noqa: PTH109  (the folder in which the command was tuned)
            *(f"export {name}={text}" for name, text in exports.items()),
            f"exec {line}",
        ]
        pasted = " ".join([*(f"{name}={text}" for name, text in exports.items()), line])
        usage = "{path}, which runs: " + pasted.replace("{", "{{").replace("}", "}}")
        files = [*self.trial_files(config, folder, comment)]
        if exports:
            files.append(shell_file(ENVIRONMENT, exports, comment))
        return (*files, WinnerFile(SCRIPT, ("\n".join(lines) + "\n").encode(), usage, is_executable=True))

    def _chosen(self, config: Config) -> list[BoundKnob]:
        return [knob for knob in self.knobs if config[knob.name] != knob.default]

    def _placeholders(self, config: Config) -> dict[str, str]:
        """Return the texts for placeholders in the command; they are filled in every launch."""
        knobs = [knob for knob in self.knobs if knob.file is None and knob.entry.passing.placeholder is not None]
        return {str(knob.entry.passing.placeholder): knob.text(config[knob.name]) for knob in knobs}

    def _changes(self, bound: BoundFile, config: Config) -> list[Change]:
        """Return the changes of a file; a text is always filled, for its placeholders are no values."""
        held = [knob for knob in self.knobs if knob.file is bound]
        if bound.file.form == "text":
            return [(knob.entry.passing.placeholder or "", knob.text(config[knob.name])) for knob in held]
        chosen = [knob for knob in held if config[knob.name] != knob.default]
        return [(knob.entry.passing.key or (), knob.actual(config[knob.name])) for knob in chosen]

    def _switch(
        self, knob: BoundKnob, wanted: bool, at: dict[int, tuple[int, tuple[str, ...]]], appended: list[str]
    ) -> None:
        """Put a switch into the command, or take it out."""
        passing = knob.entry.passing
        new = (passing.switch if wanted else passing.off) or None
        old = switch_index(self.command, passing.off if wanted else passing.switch)
        words = () if new is None else (new,)
        if old is None:
            appended += words
        else:
            at[old] = (1, words)


class _Files:
    """The config files of a command, each read once."""

    def __init__(self, command: tuple[str, ...]) -> None:
        self._command = command
        self._read: dict[int, BoundFile] = {}

    @property
    def used(self) -> tuple[BoundFile, ...]:
        return tuple(self._read.values())

    def at(self, place: FilePlace, entry: KnobEntry) -> BoundFile:
        """Return the file of a knob."""
        slot = file_slot(self._command, place)
        form: Form = "json" if entry.passing.json_file else "yaml" if entry.passing.yaml_file else "text"
        if slot.index not in self._read:
            taken = {bound.name for bound in self._read.values()}
            name = Path(slot.text).name
            unique = f"{slot.index}-{name}" if name in {*taken, SCRIPT, ENVIRONMENT} else name
            self._read[slot.index] = BoundFile(ConfigFile.read(slot.text, form), slot, unique)
        found = self._read[slot.index]
        if found.file.form != form:
            raise ConfigError(f"{slot.text} is {found.file.form} for one knob and {form} for {entry.name}")
        return found


def _misfit(entry: KnobEntry, command: Sequence[str], files: _Files) -> str:
    """Return why a command does not have a knob; empty where it has."""
    if entry.if_flag and not has_flag(command, entry.if_flag):
        return f"{entry.name} needs {' or '.join(entry.if_flag)}"
    if has_flag(command, entry.unless_flag):
        return f"{entry.name} does not go with {' or '.join(entry.unless_flag)}"
    for key, allowed in entry.if_key.items():
        place = entry.passing.file
        if place is None:
            raise AssertionError("the knob file's check has let a condition on no file pass")
        file = files.at(place, entry).file
        has_value, value = file.value(key.split("."))
        if not has_value or not _is_among(value, allowed):
            stated = f"is {json.dumps(value)}" if has_value else "is missing"
            return f"{key} {stated} in {file.path}, and {entry.name} needs {' or '.join(map(plain_text, allowed))}"
    return ""


def _unmet(entry: KnobEntry, knobs: Mapping[str, BoundKnob]) -> str:
    """Return which knob of a condition the command does not have; empty where it has all."""
    missing = next((name for name in entry.when if name not in knobs), None)
    return "" if missing is None else f"{entry.name} needs {missing}, which this command does not have"


def _is_among(value: object, allowed: Sequence[Scalar]) -> bool:
    return isinstance(value, (bool, int, float, str)) and plain_text(value) in {plain_text(one) for one in allowed}
