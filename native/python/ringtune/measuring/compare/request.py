# SPDX-License-Identifier: Apache-2.0
"""A comparison as the command line asks for it: the program, the ranks, how long, how often."""

import math
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ringtune.errors import ConfigError
from ringtune.measuring.bench.workloads import read_workload
from ringtune.settings.variables import TORCH_BACKEND_NAME

from .messages import Arm

MIN_PAIRS, MAX_PAIRS = 2, 1000
MAX_SECONDS = 86_400.0
MAX_STEPS = 10_000_000
GRADIENTS_MODULE = "ringtune.measuring.compare.gradients_program"
LAUNCHERS = ("torchrun", "accelerate", "mpirun", "mpiexec", "horovodrun", "deepspeed", "srun", "ringtune", "composer")
_PYTHON = re.compile(r"python[0-9.]*")
_WITH_VALUE = ("-W", "-X")
_DROPPED = ("TORCHELASTIC", "SLURM_", "PMI", "OMPI_", "PRTE_", "I_MPI_")
"""Prefixes of variables by which another launcher would claim the ranks."""
_PLACES = (
    *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT", "NODE_RANK"),
    *("HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE"),
    *("HOROVOD_CROSS_RANK", "HOROVOD_CROSS_SIZE", "HOROVOD_HOSTNAME"),
    *("RINGTUNE_RANK", "RINGTUNE_WORLD_SIZE", "RINGTUNE_RENDEZVOUS", "RINGTUNE_JOB_KEY"),
    TORCH_BACKEND_NAME,
)
"""Variables that each run gets as its arm needs them."""
_LEFT_OUT = ("AUTOTUNE", "HOROVOD_AUTOTUNE", "RINGTUNE_TIMELINE", "HOROVOD_TIMELINE", "RINGTUNE_METRICS_PORT")
"""Variables that would slow one arm alone."""


@dataclass(frozen=True)
class RankProgram:
    """The command of every rank.

    Attributes:
        interpreter: Python and its options.
        name: A script's path, or a module's name.
        arguments: The program's own.
        is_module: Whether it is a module.
    """

    interpreter: tuple[str, ...]
    name: str
    arguments: tuple[str, ...]
    is_module: bool = False

    @classmethod
    def parse(cls, command: Sequence[str]) -> "RankProgram":
        """Return the program that a command line names: `script.py ARGS...`, or `python [-m] PROGRAM ARGS...`.

        Raises:
            ConfigError: If it is neither, or there is no such script.
        """
        words = list(command)
        interpreter = _take_interpreter(words)
        is_module = words[:1] == ["-m"]
        words = words[1:] if is_module else words
        if not words:
            raise ConfigError("no script was given; say for example: ringtune compare -np 2 train.py --epochs 1")
        if not is_module:
            _check_script(words[0])
        return cls(tuple(interpreter), words[0], tuple(words[1:]), is_module)

    @property
    def title(self) -> str:
        """A short name for people."""
        return self.name if self.is_module else Path(self.name).name


@dataclass(frozen=True)
class CompareRequest:
    """The comparison that is asked for, and its length.

    Attributes:
        ranks: Number of ranks.
        program: The user's; None where a file of gradients is compared.
        gradients: File of gradients; None where a program is compared.
        pairs: Number of runs of each arm.
        seconds: About how long the steps of each run take.
        steps: Steps of each run, in place of `seconds`; None: by the rehearsal.
        warmup_steps: Steps at the start of each run that do not count.
        silence_s: Longest time of a run without a step.
        hosts: Hosts as `-H` takes them; None: all ranks on this machine.
        reach: Remote shell for other hosts: values of `-p`, `-i` and `--rsh`, None where they are not given.
        sent: Variables that the ranks of all hosts get besides those that always go there.
        serves_groups: Whether the engine serves the program's process groups from the first run on, in the place of
            Gloo; False: if that is the only way in which the program can be compared.
    """

    ranks: int
    program: RankProgram | None = None
    gradients: Path | None = None
    pairs: int = 6
    seconds: float = 5.0
    steps: int | None = None
    warmup_steps: int = 5
    silence_s: float = 300.0
    hosts: str | None = None
    reach: Mapping[str, Any] = field(default_factory=dict)
    sent: Mapping[str, str] = field(default_factory=dict)
    serves_groups: bool = False

    def check(self) -> None:
        """Raise `ConfigError` for a request that cannot be compared, a file that holds no gradients included."""
        if (self.program is None) == (self.gradients is None):
            raise ConfigError("give a script or --gradients FILE, one of the two")
        if self.ranks < 2:
            raise ConfigError(f"-np {self.ranks}: one rank reduces nothing; give at least 2")
        _check_range("--pairs", self.pairs, MIN_PAIRS, MAX_PAIRS)
        _check_range("--seconds", self.seconds, 0.1, MAX_SECONDS)
        _check_range("--warmup-steps", self.warmup_steps, 1, MAX_STEPS)
        _check_range("--timeout", self.silence_s, 1, MAX_SECONDS)
        if self.steps is not None:
            _check_range("--steps", self.steps, 2, MAX_STEPS)
        if self.gradients is not None:
            read_workload(self.gradients, option="--gradients")

    @property
    def launch_options(self) -> list[str]:
        """Options of `ringtune run` that name and reach hosts, and name variables without their values."""
        given = {"-H": self.hosts, **self.reach}
        reached = [word for name, value in given.items() if value is not None for word in (name, str(value))]
        return [*reached, *(word for name in self.sent for word in ("--env", name))]

    @property
    def title(self) -> str:
        """The subject of the comparison, for people."""
        return f"gradients of {self.gradients.name}" if self.gradients else self.program.title if self.program else ""

    def program_of(self, arm: Arm) -> RankProgram:
        """Return the program that the ranks of an arm run."""
        if self.program is not None:
            return self.program
        return RankProgram((sys.executable,), GRADIENTS_MODULE, (arm, str(self.gradients)), is_module=True)


def arm_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of both arms: without other launchers' places and variables that slow one arm alone."""
    kept = {
        name: value
        for name, value in environ.items()
        if not name.startswith(_DROPPED) and name not in _PLACES and name not in _LEFT_OUT
    }
    return {**kept, "AUTOTUNE": "0"}


def left_out(environ: Mapping[str, str]) -> list[str]:
    """Return the variables that are set and that no arm gets."""
    return [name for name in _LEFT_OUT if environ.get(name, "").lower() not in {"", "0", "false"}]


def _take_interpreter(words: list[str]) -> list[str]:
    """Take Python and its options from the beginning of a command line, if they are there, else this Python."""
    if not words or not _PYTHON.fullmatch(Path(words[0]).name):
        return [sys.executable]
    interpreter = [words.pop(0)]
    while words and words[0].startswith("-") and words[0] not in {"-m", "-c", "-"}:
        interpreter.append(words.pop(0))
        if interpreter[-1] in _WITH_VALUE and words:
            interpreter.append(words.pop(0))
    return interpreter


def _check_script(name: str) -> None:
    if Path(name).name in LAUNCHERS:
        raise ConfigError(
            f"{name} starts ranks itself, and compare does so, too: give the training script alone, with -np and -H"
        )
    if not os.path.lexists(name):
        raise ConfigError(f"there is no script {name!r}; give the path of a Python script, or `python -m MODULE`")
    if not Path(name).is_file():
        raise ConfigError(f"{name!r} is no file; give the path of a Python script")


def _check_range(option: str, value: float, low: float, high: float) -> None:
    if not math.isfinite(value) or not low <= value <= high:
        raise ConfigError(f"{option} {value:g} is not possible; allowed: {low:g} to {high:g}")
