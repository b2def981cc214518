# SPDX-License-Identifier: Apache-2.0
"""Builds the operations for TensorFlow's graphs and finds their library: `python -m ringtune.tensorflow_op`.

Each version of TensorFlow has its own binary interface, so the library is compiled where the job runs, against the
TensorFlow that is installed there. Its file is named for that version, and lies in the package, or in the user's cache
folder where the package cannot be written.
"""

import argparse
import ctypes
import importlib
import importlib.util
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ringtune import _engine
from ringtune.errors import ConfigError

HOW_TO_BUILD = "build it with `python -m ringtune.tensorflow_op` in the job's environment"
_SOURCE = "tensorflow_op.cpp"
_FOLDER = "graph_operations"
_FLAGS = ("-O2", "-fPIC", "-shared", "-w")  # the warnings are about TensorFlow's headers
_LINES_OF_ERROR = 20


def load_operations(tensorflow: Any) -> Any:
    """Return the module of the operations, or None where they were never built.

    Args:
        tensorflow: The module `tensorflow`.

    Raises:
        ConfigError: If they were built but cannot be used: for another version, or the library cannot be loaded.
    """
    name = _file_name(tensorflow)
    for folder in _folders():
        if (folder / name).is_file():
            return _loaded(folder / name, tensorflow)
    others = sorted({path.stem for folder in _folders() for path in folder.glob("*.so")})
    if others:
        raise ConfigError(f"the operations were built for {', '.join(others)}, not for {Path(name).stem}")
    return None


def build_operations(tensorflow: Any, compiler: str) -> Path:
    """Compile the operations and return their library.

    Args:
        tensorflow: The module `tensorflow`.
        compiler: A C++ compiler whose standard library is TensorFlow's, such as g++.

    Raises:
        ConfigError: If the compiler fails, its library cannot be loaded, or no folder can be written.
    """
    source = next((folder / _SOURCE for folder in _folders() if (folder / _SOURCE).is_file()), None)
    if source is None:
        raise ConfigError(f"{_SOURCE} is missing from this installation of ringtune; install it again")
    target = _writable_folder() / _file_name(tensorflow)
    flags = [*tensorflow.sysconfig.get_compile_flags(), *_FLAGS, f"-I{source.parent}"]
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        built = Path(scratch) / target.name
        command = [
            *shlex.split(compiler),
            *flags,
            str(source),
            "-o",
            str(built),
            *tensorflow.sysconfig.get_link_flags(),
        ]
        try:
            finished = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as error:
            raise ConfigError(
                f"the compiler {compiler} cannot be run ({error}); install g++, or name a compiler with --compiler"
            ) from error
        if finished.returncode != 0:
            said = "\n".join(finished.stderr.strip().splitlines()[:_LINES_OF_ERROR])
            raise ConfigError(f"the operations could not be compiled: {' '.join(command)}\n{said}")
        _loaded(built, tensorflow)
        built.replace(target)
    return target


def _loaded(path: Path, tensorflow: Any) -> Any:
    """Load a library and refuse one that another version of the engine's interface was built into."""
    try:
        operations = tensorflow.load_op_library(str(path))
        version = ctypes.CDLL(str(path)).ringtune_submission_version()
    except (OSError, AttributeError, tensorflow.errors.OpError) as error:
        raise ConfigError(f"{path} cannot be loaded ({error})") from error
    if version != _engine.SUBMISSION_VERSION:
        raise ConfigError(f"{path} was built with another version of ringtune")
    return operations


def _file_name(tensorflow: Any) -> str:
    return f"tensorflow-{tensorflow.__version__}.so"


def _folders() -> Iterator[Path]:
    """Yield where the library may lie, in the order of the search; the package first."""
    package = importlib.util.find_spec("ringtune")
    for location in (package and package.submodule_search_locations) or ():
        yield Path(location) / _FOLDER
    yield Path.home() / ".cache" / "ringtune" / _FOLDER


def _writable_folder() -> Path:
    *in_package, in_cache = _folders()
    for folder in in_package:
        if folder.is_dir() and os.access(folder, os.W_OK):
            return folder
    try:
        in_cache.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"no folder for the library can be written: neither the package's nor {in_cache}") from error
    return in_cache


def main() -> int:
    """Build the operations for this environment's TensorFlow and print their library; 2 if that is not possible."""
    parser = argparse.ArgumentParser(prog="python -m ringtune.tensorflow_op", description=main.__doc__)
    parser.add_argument("--compiler", default="g++", help="C++ compiler (default: %(default)s)")
    arguments = parser.parse_args()
    try:
        tensorflow = importlib.import_module("tensorflow")
        sys.stdout.write(f"compiling for TensorFlow {tensorflow.__version__}, which takes some seconds ...\n")
        sys.stdout.flush()
        path = build_operations(tensorflow, arguments.compiler)
    except (ConfigError, ImportError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
