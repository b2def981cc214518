# SPDX-License-Identifier: Apache-2.0
"""Description of an engine: its knobs, the environment of a trial, and the files that keep a winner.

A knob at its default is not set. The default of most knobs is the value "default": the variable stays as the user's
environment has it. The baseline is all defaults: the command runs as it would without ringtune, in any version of the
engine.
"""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from ringtune.errors import ConfigError
from ringtune.tuner import BooleanParameter, CategoryParameter, Config, NumberParameter, SearchSpace, Value

DEFAULT = "default"
"""The value that leaves a variable alone."""


@dataclass(frozen=True)
class Knob:
    """A parameter, and the variables that carry its value.

    Attributes:
        parameter: Its legal values, among them the default, which leaves it unset.
        variables: Environment variables that get the value; empty where the engine writes it another way.
        words: The engine's own words for values, where they differ.
    """

    parameter: NumberParameter | CategoryParameter | BooleanParameter
    variables: tuple[str, ...] = ()
    words: Mapping[Value, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The parameter's name."""
        return self.parameter.name

    def word(self, value: Value) -> str:
        """Return a value as the engine writes it."""
        return self.words.get(value, f"{value:g}" if isinstance(value, float) else str(value))


@dataclass(frozen=True)
class WinnerFile:
    """A file for the engine, and its use.

    Attributes:
        name: Its name in the output folder.
        content: The whole content.
        usage: Instruction in one line; `{path}` stands for its absolute path. Empty where another file has it.
        is_executable: True for a script that can be started by its path.
    """

    name: str
    content: bytes
    usage: str = ""
    is_executable: bool = False


FilesOf = Callable[[Config, Path, str], tuple[WinnerFile, ...]]
"""Files of a config: (config, absolute output folder, comment lines without marks) -> files."""


CommandOf = Callable[[Config, Path, Sequence[str]], tuple[str, ...]]
"""Command of a trial: (config, absolute output folder, the user's command) -> program and arguments."""


def same_command(config: Config, folder: Path, command: Sequence[str]) -> tuple[str, ...]:
    """Return the user's command: trials of most engines differ by their environment alone."""
    del config, folder
    return tuple(command)


def no_trial_files(config: Config, folder: Path, comment: str) -> tuple[WinnerFile, ...]:
    """Return no file: trials of most engines need none."""
    del config, folder, comment
    return ()


@dataclass(frozen=True)
class Engine:
    """An engine whose parameters are set before it is launched.

    Attributes:
        name: The name of the target.
        knobs: The knobs that can be set.
        winner_files: Writes a config the way the engine reads it.
        environment_of: Variables of a trial beyond those of the knobs: (config, absolute output folder) -> variables.
        trial_files: Files that a trial's variables name; they are in the output folder before the launch.
        owned: Further variables that a trial sets; where the user sets one, the knobs that need it stay at its value.
        is_for_gpus: True where it moves data between GPUs; these are then part of the study's key.
        command_of: Command of a trial.
        effective: A config with the default in place of each value that has no effect beside the others.
        needs: For a knob that its own default would leave without effect, the knobs of which one has to vary, too; a
            knob with several such conditions has several groups.
        identity: Everything beyond the name that makes another study, as text.
    """

    name: str
    knobs: tuple[Knob, ...]
    winner_files: FilesOf
    environment_of: Callable[[Config, Path], Mapping[str, str]] = lambda _config, _folder: MappingProxyType({})
    trial_files: FilesOf = no_trial_files
    owned: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    is_for_gpus: bool = False
    command_of: CommandOf = same_command
    effective: Callable[[Config], Config] = lambda config: config
    needs: Mapping[str, tuple[tuple[str, ...], ...]] = field(default_factory=dict)
    identity: str = ""

    def space(self, environ: Mapping[str, str], only: tuple[str, ...] = ()) -> SearchSpace:
        """Return the legal configs.

        Args:
            environ: A knob whose variable is set there is left alone.
            only: Names of the knobs to vary; empty for all.

        Raises:
            ConfigError: If a name in `only` is no knob, or one without effect while others are at their defaults.
        """
        names = [knob.name for knob in self.knobs]
        unknown = [name for name in only if name not in names]
        if unknown:
            raise ConfigError(f"--only {', '.join(unknown)}: {self.name} has no such knob; it has {', '.join(names)}")
        set_by_user = self.set_by_user(environ)
        pinned = {*set_by_user, *(name for name in names if only and name not in only)}
        self._check_effect(only, pinned, set_by_user)
        baseline = self.baseline()
        return SearchSpace([knob.parameter for knob in self.knobs], {name: baseline[name] for name in sorted(pinned)})

    def _check_effect(self, only: tuple[str, ...], pinned: AbstractSet[str], set_by_user: Mapping[str, str]) -> None:
        """Raise ConfigError for a name in `only` whose knob has no effect beside pinned ones."""
        for name in only:
            for group in self.needs.get(name, ()):
                if pinned >= set(group):
                    raise ConfigError(f"--only {name}: {_idle_text(group, set_by_user)}")

    def set_by_user(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the knobs that the user's environment decides, with the variable that does."""
        needed = {knob.name: (*knob.variables, *self.owned.get(knob.name, ())) for knob in self.knobs}
        found = {name: next((v for v in variables if v in environ), "") for name, variables in needed.items()}
        return {name: variable for name, variable in found.items() if variable}

    def baseline(self) -> Config:
        """Return the config that leaves every knob unset."""
        return Config({knob.name: knob.parameter.default for knob in self.knobs})

    def legal(self, config: Mapping[str, Value]) -> Config:
        """Return a config that was kept or sent, with the defaults of knobs that it does not know.

        Raises:
            SpaceError: If it is not legal.
        """
        return self.space({}).validate(Config({**self.baseline(), **config}))

    def in_files(self, config: Config) -> tuple[str, ...]:
        """Return the knobs of a legal config that are set and that no variable carries."""
        return tuple(knob.name for knob in self.chosen(config) if not knob.variables)

    def chosen(self, config: Mapping[str, Value]) -> tuple[Knob, ...]:
        """Return the knobs that a config sets: those that are not at their default."""
        return tuple(knob for knob in self.knobs if config[knob.name] != knob.parameter.default)

    def variables(self, config: Config, folder: Path) -> dict[str, str]:
        """Return the environment variables of a trial.

        Args:
            config: The config to set.
            folder: The absolute output folder, where `trial_files` are.
        """
        return {**self.plain_variables(config), **self.environment_of(config, folder)}

    def plain_variables(self, config: Config) -> dict[str, str]:
        """Return the variables that carry single values."""
        chosen = self.chosen(config)
        return {variable: knob.word(config[knob.name]) for knob in chosen for variable in knob.variables}


def _idle_text(group: Sequence[str], set_by_user: Mapping[str, str]) -> str:
    """Return the cause that keeps a knob from acting, and the remedy: its group of knobs is at its defaults."""
    held = next((f"{other}, which {set_by_user[other]} sets" for other in group if other in set_by_user), "")
    others = " or ".join(group)
    remedy = f"unset it for ringtune to vary {held}" if held else f"add {others} to --only"
    return f"it has no effect while {others} {'are' if len(group) > 1 else 'is'} not varied; {remedy}"


def size_knob(name: str, low: int, high: int, step: int, variables: tuple[str, ...]) -> Knob:
    """Return a knob for a size or count on a base-2 logarithmic scale, between `low` and `high` in steps of `step`."""
    parameter = NumberParameter(name, low, high, DEFAULT, scale="log2", step=step, special=(DEFAULT,))
    return Knob(parameter, variables)


def choice_knob(name: str, words: Mapping[Value, str], variables: tuple[str, ...] = ()) -> Knob:
    """Return a knob with our names, the keys of `words`, for the engine's own words."""
    return Knob(CategoryParameter(name, (DEFAULT, *map(str, words)), DEFAULT), variables, words)


def commented(comment: str) -> list[str]:
    """Return the comment's lines with the mark that every engine here uses."""
    return [f"# {line}".rstrip() for line in comment.splitlines()]


def settings_file(name: str, values: Mapping[str, str], comment: str, *, sign: str = "=", usage: str) -> WinnerFile:
    """Return a file with a line per variable."""
    lines = [*commented(comment), *(f"{variable}{sign}{value}" for variable, value in values.items())]
    return WinnerFile(name, ("\n".join(lines) + "\n").encode(), usage)


def shell_file(name: str, values: Mapping[str, str], comment: str) -> WinnerFile:
    """Return a file of `export` lines for a POSIX shell; the values are words without blanks or quotes."""
    exports = {f"export {variable}": value for variable, value in values.items()}
    return settings_file(name, exports, comment, usage="before the launch: . {path}")
