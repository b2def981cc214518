# SPDX-License-Identifier: Apache-2.0
"""Builds the distributions: an sdist and, from it, one manylinux wheel per architecture. `make wheels` runs it.

The command `horovodrun` is a small wheel of its own.

The wheels are compiled by the clang of the `ziglang` wheel. It compiles for an architecture and a glibc that need not
be this machine's, and links its C++ library statically. auditwheel then compares every symbol with the oldest glibc
and writes the tag.

Each wheel is built in a folder that has the sdist's files alone: a file that the sdist lacks is an error. The folder is
kept between calls, so that a change compiles only the files that depend on it.

The wheel is for the Python that runs this; from 3.12 on it is for all later versions too (stable ABI). A cross-compiled
wheel uses this Python's headers, which are the same for every 64-bit Linux.
"""

import argparse
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Collection, Mapping
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
STABLE_ABI = "cp312"  # the oldest Python whose stable ABI nanobind can use
COMPILERS: Mapping[str, str] = {"CC": "cc", "CXX": "c++"}  # environment variable: zig's command


def build_sdist(out: Path) -> Path:
    """Build the sdist in a folder and return its file; an older one is removed."""
    for old in out.glob("ringtune-*.tar.gz"):
        old.unlink()
    _build("--sdist", REPOSITORY, out, os.environ)
    return next(out.glob("ringtune-*.tar.gz"))


def build_horovodrun(out: Path) -> Path:
    """Build the wheel that has the command `horovodrun` alone, in a folder, and return its file."""
    for old in out.glob("ringtune_horovodrun-*.whl"):
        old.unlink()
    _build("--wheel", REPOSITORY / "native" / "horovodrun", out, os.environ)
    return next(out.glob("ringtune_horovodrun-*.whl"))


def build_wheel(sdist: Path, architecture: str, *, glibc: str, scratch: Path) -> Path:
    """Build the wheel of one architecture from the sdist and return its file, which has its final name.

    Args:
        sdist: Unpacked first; files that it leaves unchanged are not compiled again.
        architecture: Name in a wheel's tag: `x86_64`, `aarch64`.
        glibc: The oldest version that the wheel has to run on: `2.28`.
        scratch: A folder for this architecture alone.
    """
    source = scratch / sdist.name.removesuffix(".tar.gz")
    unpack(sdist, source)
    for results in ("raw", "repaired", "include"):
        shutil.rmtree(scratch / results, ignore_errors=True)
    environ = {**os.environ, **_compilers(scratch, f"{architecture}-linux-gnu.{glibc}")}
    settings = [f"wheel.py-api={STABLE_ABI}", f"build-dir={scratch / 'build'}"]
    if architecture != platform.machine():
        environ |= _cross_environment(architecture)
        settings += _cross_settings(architecture, scratch / "include")
    _build("--wheel", source, scratch / "raw", environ, settings)
    raw = next((scratch / "raw").glob("*.whl"))
    # auditwheel knows other machines' tags by "auto" alone, which is the oldest glibc that the symbols allow.
    is_native = architecture == platform.machine()
    tag = f"manylinux_{glibc.replace('.', '_')}_{architecture}" if is_native else "auto"
    repaired = scratch / "repaired"
    repair = ["auditwheel", "repair", "--only-plat", "--plat", tag, "--wheel-dir", str(repaired), str(raw)]
    subprocess.run(repair, check=True)
    return next(repaired.glob("*.whl"))


def unpack(sdist: Path, folder: Path) -> None:
    """Bring a folder to the sdist's files, all of them and no others; those that it has already keep their times."""
    with tarfile.open(sdist) as archive:
        members = {Path(*Path(member.name).parts[1:]): member for member in archive.getmembers() if member.isfile()}
        _drop_others(folder, set(members))
        for name, member in members.items():
            content = archive.extractfile(member)
            assert content is not None  # a file
            data, path = content.read(), folder / name
            if not path.is_file() or path.read_bytes() != data:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)


def _drop_others(folder: Path, names: Collection[Path]) -> None:
    """Remove every file of a folder that has none of the names, relative to it."""
    for path in [path for path in folder.rglob("*") if path.is_file() or path.is_symlink()]:
        if path.relative_to(folder) not in names:
            path.unlink()


def _build(kind: str, source: Path, out: Path, environ: Mapping[str, str], settings: list[str] | None = None) -> None:
    """Run the PEP 517 build in this environment."""
    options = [f"--config-setting={setting}" for setting in settings or ()]
    command = [sys.executable, "-m", "build", kind, "--no-isolation", "--outdir", str(out), *options, str(source)]
    subprocess.run(command, check=True, env=environ)


def _compilers(folder: Path, target: str) -> dict[str, str]:
    """Write programs that compile for a target, and return the variables that name them."""
    variables = {}
    for variable, command in COMPILERS.items():
        path = folder / f"zig-{command}"
        path.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ziglang {command} -target {target} "$@"\n')
        path.chmod(0o755)
        variables[variable] = str(path)
    return variables


def _cross_environment(architecture: str) -> dict[str, str]:
    """Return the variables by which Python's build tools name another architecture."""
    suffix = f".{sys.implementation.cache_tag}-{architecture}-linux-gnu.so"
    return {"_PYTHON_HOST_PLATFORM": f"linux-{architecture}", "SETUPTOOLS_EXT_SUFFIX": suffix}


def _cross_settings(architecture: str, include: Path) -> list[str]:
    """Return CMake's settings for another architecture.

    Args:
        architecture: Not this machine's.
        include: Gets this Python's headers. Debian's `pyconfig.h` includes one by architecture; the copy does not.
    """
    shutil.copytree(sysconfig.get_path("include"), include)
    shutil.copy(sysconfig.get_config_h_filename(), include / "pyconfig.h")
    defines = {"CMAKE_SYSTEM_NAME": "Linux", "CMAKE_SYSTEM_PROCESSOR": architecture, "Python_INCLUDE_DIR": str(include)}
    return [f"cmake.define.{name}={value}" for name, value in defines.items()]


def main() -> int:
    """Build all and print the files."""
    parser = argparse.ArgumentParser(description="Build the sdist and, from it, manylinux wheels.")
    parser.add_argument("architectures", nargs="+", metavar="ARCHITECTURE", help="x86_64 or aarch64")
    parser.add_argument("--glibc", default="2.28", help="oldest glibc that the wheels run on (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=REPOSITORY / "dist", help="folder of the results (default: dist)")
    parser.add_argument("--scratch", type=Path, default=REPOSITORY / "build" / "release", help="folder of the build")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    files = [sdist := build_sdist(arguments.out), build_horovodrun(arguments.out)]
    for architecture in arguments.architectures:
        scratch = arguments.scratch.resolve() / architecture
        built = build_wheel(sdist, architecture, glibc=arguments.glibc, scratch=scratch)
        files.append(Path(shutil.copy(built, arguments.out)))
    for file in files:
        sys.stdout.write(f"{file.stat().st_size / 2**20:5.1f} MiB  {file}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
