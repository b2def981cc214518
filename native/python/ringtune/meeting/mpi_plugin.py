# SPDX-License-Identifier: Apache-2.0
"""Builds the MPI transport's plugin and finds the one that fits an MPI: `python -m ringtune.mpi_plugin`.

Each MPI has its own binary interface, so each needs a plugin compiled with its own compiler wrapper. A plugin's file is
named for the MPI it is for, and lies in the package, or in the user's cache folder where the package cannot be written.
"""

import argparse
import ctypes
import importlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ringtune.errors import ConfigError

WRAPPER = "mpicxx"
HOW_TO_BUILD = "build it with `python -m ringtune.mpi_plugin` in the job's environment"
_SOURCE = "mpi_plugin.cpp"
_FLAGS = ("-std=c++17", "-O2", "-fPIC", "-shared")
_NAME_BYTES = 1024


def installed_plugin(mpi: Any) -> Path:
    """Return the plugin's file for an MPI.

    Args:
        mpi: The module `mpi4py.MPI`; it need not be initialised.

    Raises:
        ConfigError: If there is none, or it is for another MPI.
    """
    name = _file_name(mpi)
    for folder in _folders():
        path = folder / name
        if path.is_file():
            _check_fit(path, mpi)
            return path
    others = sorted({path.stem for folder in _folders() for path in folder.glob("*.so")})
    known = f"; there are plugins for {', '.join(others)}" if others else ""
    raise ConfigError(
        f"the MPI transport has no plugin for {library_name(mpi)}{known}: {HOW_TO_BUILD}, or set RINGTUNE_TRANSPORT=tcp"
    )


def build_plugin(mpi: Any, compiler: str) -> Path:
    """Compile the plugin and return its file.

    Args:
        mpi: The module `mpi4py.MPI`; it need not be initialised.
        compiler: The compiler wrapper of the same MPI.

    Raises:
        ConfigError: If the compiler fails, is another MPI's, or no folder can be written.
    """
    source = next((folder / _SOURCE for folder in _folders() if (folder / _SOURCE).is_file()), None)
    if source is None:
        raise ConfigError(f"{_SOURCE} is missing from this installation of ringtune; install it again")
    target = _writable_folder() / _file_name(mpi)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        built = Path(scratch) / target.name
        command = [compiler, *_FLAGS, f"-I{source.parent}", str(source), "-o", str(built)]
        try:
            finished = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as error:
            raise ConfigError(f"the compiler {compiler} cannot be run ({error}); name one with --compiler") from error
        if finished.returncode != 0:
            raise ConfigError(f"the plugin could not be compiled: {' '.join(command)}\n{finished.stderr.strip()}")
        _check_fit(built, mpi)
        built.replace(target)
    return target


def library_name(mpi: Any) -> str:
    """Return the name and version that MPI's library gives itself, without when and how it was built."""
    return re.split(r"[,\n]", str(mpi.Get_library_version()))[0]


def _check_fit(path: Path, mpi: Any) -> None:
    """Refuse a plugin whose MPI library is not the one that mpi4py has loaded."""
    try:
        text = ctypes.create_string_buffer(_NAME_BYTES)
        ctypes.CDLL(str(path), mode=os.RTLD_NOW).ringtune_mpi_library_name(text, ctypes.c_size_t(_NAME_BYTES))
    except (OSError, AttributeError) as error:
        raise ConfigError(f"the MPI transport's plugin {path} cannot be loaded ({error}); {HOW_TO_BUILD}") from error
    its = text.value.decode("utf-8", "replace")
    if its != library_name(mpi):
        raise ConfigError(
            f"the MPI transport's plugin {path} belongs to {its}, but mpi4py and mpirun to {library_name(mpi)}; "
            f"{HOW_TO_BUILD}, with the {WRAPPER} of that MPI"
        )


def _file_name(mpi: Any) -> str:
    vendor, version = mpi.get_vendor()
    return f"{vendor.lower().replace(' ', '-')}-{'.'.join(map(str, version))}.so"


def _folders() -> Iterator[Path]:
    """Yield where a plugin may lie, in the order of the search; the package first."""
    package = importlib.util.find_spec("ringtune")
    for location in (package and package.submodule_search_locations) or ():
        yield Path(location) / "mpi"
    yield Path.home() / ".cache" / "ringtune" / "mpi"


def _writable_folder() -> Path:
    *in_package, in_cache = _folders()
    for folder in in_package:
        if folder.is_dir() and os.access(folder, os.W_OK):
            return folder
    try:
        in_cache.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"no folder for the plugin can be written: neither the package's nor {in_cache}") from error
    return in_cache


def main() -> int:
    """Build the plugin for this environment's MPI and print its file; 2 if that is not possible."""
    beside = Path(sys.executable).parent / WRAPPER  # an MPI from a wheel has it there
    default = str(beside) if beside.is_file() else shutil.which(WRAPPER) or WRAPPER
    parser = argparse.ArgumentParser(prog="python -m ringtune.mpi_plugin", description=main.__doc__)
    parser.add_argument("--compiler", default=default, help="compiler wrapper of the MPI (default: %(default)s)")
    arguments = parser.parse_args()
    try:
        importlib.import_module("mpi4py").rc.initialize = False  # only its version is asked for
        mpi = importlib.import_module("mpi4py.MPI")
        path = build_plugin(mpi, arguments.compiler)
    except (ConfigError, ImportError, RuntimeError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(f"{path}\n")
    return 0
