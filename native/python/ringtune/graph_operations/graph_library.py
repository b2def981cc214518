# SPDX-License-Identifier: Apache-2.0
"""A library for a framework, such as operations for its graphs, compiled where the job runs.

Each version of a framework has its own binary interface, so the library is compiled against the one that is installed.
Its file is named for that version, and lies in the package, or in the user's cache folder where the package cannot be
written.
"""

import ctypes
import importlib.util
import os
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ringtune import _engine
from ringtune.errors import ConfigError

_FOLDER = "graph_operations"
_LINES_OF_ERROR = 20


@dataclass(frozen=True)
class GraphLibrary:
    """The library for one version of a framework.

    Attributes:
        source: Its C++ file, below the folder of libraries.
        framework: Name of the framework, in lower case.
        version: Version of the framework.
        compile_flags: Flags of the compiler, the framework's among them.
        link_flags: Flags that follow the source.
        load: Loads a file into the framework and returns its functions; raises `OSError` or `AttributeError`.
    """

    source: str
    framework: str
    version: str
    compile_flags: Sequence[str]
    link_flags: Sequence[str]
    load: Callable[[Path], Any]

    @property
    def file_name(self) -> str:
        """The library's file."""
        return f"{self.framework}-{self.version}.so"

    def find(self) -> Any:
        """Return the loaded library, or None where it was never built.

        Raises:
            ConfigError: If it was built but cannot be used: for another version, or the file cannot be loaded.
        """
        for folder in library_folders():
            if (folder / self.file_name).is_file():
                return self._loaded(folder / self.file_name)
        others = [name for name in built_libraries() if name.startswith(f"{self.framework}-")]
        if others:
            raise ConfigError(f"the operations were built for {', '.join(others)}, not for {Path(self.file_name).stem}")
        return None

    def build(self, compiler: str) -> Path:
        """Compile the library and return its file.

        Args:
            compiler: A C++ compiler whose standard library is the framework's, such as g++.

        Raises:
            ConfigError: If the compiler fails, its library cannot be loaded, or no folder can be written.
        """
        folder = next((folder for folder in library_folders() if (folder / self.source).is_file()), None)
        if folder is None:
            raise ConfigError(f"{self.source} is missing from this installation of ringtune; install it again")
        target = _writable_folder() / self.file_name
        with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            built = Path(scratch) / target.name
            flags = [*self.compile_flags, f"-I{folder}", str(folder / self.source), "-o", str(built), *self.link_flags]
            _compile([*shlex.split(compiler), *flags])
            self._loaded(built)
            built.replace(target)
        return target

    def _loaded(self, path: Path) -> Any:
        """Load a library and refuse one that another version of the engine's interface was built into."""
        try:
            operations = self.load(path)
            version = ctypes.CDLL(str(path)).ringtune_submission_version()
        except (OSError, AttributeError) as error:
            raise ConfigError(f"{path} cannot be loaded ({error})") from error
        if version != _engine.SUBMISSION_VERSION:
            raise ConfigError(f"{path} was built with another version of ringtune")
        return operations


def library_folders() -> Iterator[Path]:
    """Yield where a library may lie, in the order of the search; the package first."""
    package = importlib.util.find_spec("ringtune")
    for location in (package and package.submodule_search_locations) or ():
        yield Path(location) / _FOLDER
    yield Path.home() / ".cache" / "ringtune" / _FOLDER


def built_libraries() -> list[str]:
    """Return the libraries of this environment: framework and version, as `torch-2.13.0`."""
    return sorted({path.stem for folder in library_folders() for path in folder.glob("*.so")})


def _compile(command: list[str]) -> None:
    try:
        finished = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise ConfigError(
            f"the compiler {command[0]} cannot be run ({error}); install g++, or name a compiler with --compiler"
        ) from error
    if finished.returncode != 0:
        output = "\n".join(finished.stderr.strip().splitlines()[:_LINES_OF_ERROR])
        raise ConfigError(f"the operations could not be compiled: {' '.join(command)}\n{output}")


def _writable_folder() -> Path:
    *in_package, in_cache = library_folders()
    for folder in in_package:
        if folder.is_dir() and os.access(folder, os.W_OK):
            return folder
    try:
        in_cache.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"no folder for the library can be written: neither the package's nor {in_cache}") from error
    return in_cache
