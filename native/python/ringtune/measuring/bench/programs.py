# SPDX-License-Identifier: Apache-2.0
"""Compiles the contestants that are C++ programs, once per source and compiler, into the user's cache folder.

Their sources are installed with the package. A limit that was compiled for another machine's instructions would be
none, so each is compiled where it runs.
"""

import hashlib
import importlib.util
import shlex
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ringtune.errors import ConfigError
from ringtune.identity.fingerprints import machine_facts

_LINES_OF_ERROR = 20


@dataclass(frozen=True)
class CxxProgram:
    """A program in C++.

    Attributes:
        name: Name of the binary.
        sources: Its files; the first is compiled and includes the others.
        flags: For the compiler.
    """

    name: str
    sources: tuple[str, ...]
    flags: tuple[str, ...]


LIMIT = CxxProgram(
    "limit", ("limit.cpp", "kernels.h", "team.h", "allreduce_timing.h"), ("-std=c++20", "-O3", "-march=native")
)
DELAY_SWITCH = CxxProgram("delay_switch", ("delay_switch.cpp",), ("-std=c++20", "-O2"))
MPI_ALLREDUCE = CxxProgram("mpi_allreduce", ("mpi_allreduce.cpp", "allreduce_timing.h"), ("-std=c++20", "-O2"))


def built(program: CxxProgram, compiler: str, environ: Mapping[str, str]) -> Path:
    """Return the executable, compiled now if it is not there yet.

    Args:
        program: Program to build.
        compiler: The compiler's command.
        environ: The environment of the compiler; its HOME is where the cache folder is.

    Raises:
        ConfigError: If the compiler cannot be run or fails, a source is missing, or the folder cannot be written.
    """
    sources = _sources(program)
    command = [*shlex.split(compiler), *program.flags, str(sources[0])]
    target = Path.home() / ".cache" / "ringtune" / "bench" / f"{program.name}-{_key(sources, command, environ)}"
    if target.is_file():
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            executable = Path(scratch) / program.name
            _run([*command, "-o", str(executable)], environ)
            executable.replace(target)
    except OSError as error:
        raise ConfigError(f"{target.parent}, where {program.name} is built, cannot be written ({error})") from error
    return target


def _sources(program: CxxProgram) -> list[Path]:
    package = importlib.util.find_spec("ringtune")
    for location in (package and package.submodule_search_locations) or ():
        paths = [Path(location) / "measuring" / "bench" / "programs" / name for name in program.sources]
        if all(path.is_file() for path in paths):
            return paths
    raise ConfigError(f"{', '.join(program.sources)} are missing from this installation of ringtune; install it again")


def _key(sources: Sequence[Path], command: Sequence[str], environ: Mapping[str, str]) -> str:
    """Return a digest of all inputs of the executable: sources, compiler, flags, processor."""
    digest = hashlib.sha256()
    for path in sources:
        digest.update(path.read_bytes())
    for text in (*command, _run([command[0], "--version"], environ), str(machine_facts()["cpu_model"])):
        digest.update(text.encode() + b"\0")
    return digest.hexdigest()[:16]


def _run(command: Sequence[str], environ: Mapping[str, str]) -> str:
    try:
        finished = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(environ))
    except OSError as error:
        raise ConfigError(
            f"the compiler {command[0]} cannot be run ({error}); install a C++20 compiler, or name one with CXX"
        ) from error
    if finished.returncode != 0:
        output = "\n".join(finished.stderr.strip().splitlines()[:_LINES_OF_ERROR])
        raise ConfigError(f"this has failed: {shlex.join(command)}\n{output}")
    return finished.stdout
