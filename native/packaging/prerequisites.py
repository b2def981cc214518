# SPDX-License-Identifier: Apache-2.0
"""Names everything that `make setup` needs and this machine lacks, in one line, before anything is installed.

It runs under the system's Python, however old, so it has the standard library alone and quoted annotations. A C++
compiler is not asked for where the ziglang wheel takes its place. No wheel brings Python's headers, git or venv.
"""

import platform
import shutil
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

OLDEST_PYTHON = (3, 11)  # the service's; the engine alone runs from 3.10 on
DISK_BYTES = 4 << 30  # bytes for .venv (2.2 GB), the build (0.1 GB), and pip, which unpacks wheels beside them
ZIG_MACHINES = ("x86_64", "aarch64")


class Need(NamedTuple):
    """Something that a package of the distribution brings: its name, and the package on Debian and on Fedora."""

    name: str
    debian: str
    fedora: str


HEADERS = Need("Python's headers (Python.h)", "python3-dev", "python3-devel")
PIP = Need("venv with pip (ensurepip)", "python3-venv", "python3-pip")
GIT = Need("git", "git", "git")
COMPILER = Need("a C++20 compiler", "g++", "gcc-c++")


def has_headers() -> bool:
    """Say whether extension modules can be compiled for this Python."""
    return Path(sysconfig.get_path("include"), "Python.h").is_file()


def has_pip_for_environments() -> bool:
    """Say whether a virtual environment can get a pip: from ensurepip, or from the system's pip."""
    return find_spec("venv") is not None and any(find_spec(name) is not None for name in ("ensurepip", "pip"))


def missing_packages(*, has_compiler: bool) -> "list[Need]":
    """Return the missing needs that a package of the distribution meets.

    Args:
        has_compiler: Whether the Makefile found a C++20 compiler.
    """
    found = {
        HEADERS: has_headers(),
        PIP: has_pip_for_environments(),
        GIT: shutil.which("git") is not None,
        COMPILER: has_compiler or platform.machine() in ZIG_MACHINES,
    }
    return [need for need, is_there in found.items() if not is_there]


def complaint(folder: Path, *, has_compiler: bool) -> str:
    """Return the line that names all that is missing, or an empty one.

    Args:
        folder: Folder of the clone, on whose file system the environment will lie.
        has_compiler: Whether the Makefile found a C++20 compiler.
    """
    missing = missing_packages(has_compiler=has_compiler)
    parts = [need.name for need in missing]
    if sys.version_info < OLDEST_PYTHON:
        oldest = ".".join(map(str, OLDEST_PYTHON))
        this = f"{sys.executable} is {platform.python_version()}"
        parts.append(f"Python {oldest} or newer ({this}; name another by PYTHON=...)")
    free_bytes = shutil.disk_usage(str(folder)).free
    if free_bytes < DISK_BYTES and not (folder / ".venv" / ".packages").exists():
        parts.append(f"{DISK_BYTES / 1e9:.1f} GB of disk in {folder} ({free_bytes / 1e9:.1f} GB are free)")
    if not parts:
        return ""
    line = f"make setup needs: {', '.join(parts)}."
    if missing:
        debian = " ".join(sorted(need.debian for need in missing))
        fedora = " ".join(sorted(need.fedora for need in missing))
        line += f" Debian and Ubuntu: apt-get install {debian}. Fedora: dnf install {fedora}."
    return line


def main() -> int:
    """Print the line to standard error; 1 if anything is missing."""
    line = complaint(Path.cwd(), has_compiler="has-compiler" in sys.argv[1:])
    if line:
        sys.stderr.write(line + "\n")
    return 1 if line else 0


if __name__ == "__main__":
    sys.exit(main())
