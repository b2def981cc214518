# SPDX-License-Identifier: Apache-2.0
"""Builds ringtune where there is no network and no environment of the project: the engine by CMake, packages by links.

No package is installed: Python finds ringtune in a folder of links, as `[tool.scikit-build]` would lay it out, and
wheels that the machine lacks in another.
"""

import importlib.metadata
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGE = REPOSITORY / "native" / "python" / "ringtune"
WHEELS = REPOSITORY / ".gpu-wheels"
OWN_VERSION = frozenset({"nanobind"})  # taken from the wheels whatever is installed


def prepare(folder: Path) -> Mapping[str, str]:
    """Build ringtune, and return the environment in which programs find it.

    Args:
        folder: Folder of the builds; kept between calls.
    """
    folder = folder.resolve()
    site, packages = folder / "site", folder / "packages"
    folder.mkdir(parents=True, exist_ok=True)
    _install_missing(site)
    engine = _build_engine(folder / "engine", [site])
    _lay_out(packages, engine)
    paths = [packages, REPOSITORY, site, os.environ.get("PYTHONPATH", "")]
    return {"PYTHONPATH": os.pathsep.join(str(path) for path in paths if str(path))}


def _install_missing(site: Path) -> None:
    """Install the wheels that were brought along for distributions that are not here."""
    named = [(wheel.name.split("-")[0], wheel) for wheel in sorted(WHEELS.glob("*.whl"))]
    missing = [wheel for name, wheel in named if name in OWN_VERSION or not _is_installed(name)]
    if not missing:
        return
    options = ["--quiet", "--no-index", "--no-deps", "--no-compile", "--no-cache-dir", "--upgrade"]
    _run([sys.executable, "-m", "pip", "install", *options, "--target", str(site), *map(str, missing)])


def _is_installed(name: str) -> bool:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _build_engine(build: Path, paths: list[Path]) -> Path:
    """Build the extension module and return its file."""
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}
    nanobind = _output([sys.executable, "-m", "nanobind", "--cmake_dir"], environ)
    cmake = _tool("cmake")
    options = [f"-DPython_EXECUTABLE={sys.executable}", f"-Dnanobind_DIR={nanobind}", "-DCMAKE_BUILD_TYPE=Release"]
    generator = ["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={_tool('ninja')}"]
    _run([cmake, "-S", str(REPOSITORY / "native"), "-B", str(build), *generator, *options], environ)
    _run([cmake, "--build", str(build), "-j", str(os.cpu_count())], environ)
    (module,) = build.glob("_engine*.so")
    return module


def _lay_out(packages: Path, engine: Path) -> None:
    """Make a folder with the package `ringtune`: links to its sources, and to the engine."""
    package = packages / "ringtune"
    shutil.rmtree(package, ignore_errors=True)
    package.mkdir(parents=True)
    plugin = engine.parent / "nccl_tuner" / "libringtune_nccl_tuner.so"
    (package / "nccl").mkdir()
    (package / "nccl" / plugin.name).symlink_to(plugin.resolve())
    for entry in PACKAGE.iterdir():
        if entry.name != "__pycache__" and entry.suffix != ".so":
            (package / entry.name).symlink_to(entry.resolve())
    (package / engine.name).symlink_to(engine.resolve())


def _tool(name: str) -> str:
    """Return a tool's path: beside the interpreter, where wheels put it, or the system's."""
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise RuntimeError(f"{name} is not here; bring its wheel: python -m tests.gpu.wheels")
    return found


def _run(command: list[str], environ: Mapping[str, str] | None = None) -> None:
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stdout[-6000:]}\n{done.stderr[-6000:]}")


def _output(command: list[str], environ: Mapping[str, str]) -> str:
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=True).stdout.strip()
