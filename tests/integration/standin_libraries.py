# SPDX-License-Identifier: Apache-2.0
"""The stand-ins for the CUDA driver and for NCCL as libraries of their names, for processes that load them first."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.house.source_tree import REPOSITORY

SOURCES = REPOSITORY / "tests" / "native" / "device"
INCLUDES = (f"-I{REPOSITORY / 'native' / 'src'}", f"-I{SOURCES.parent}")


def compile_library(library: Path, *arguments: str) -> Path:
    """Compile a shared library and return it.

    Args:
        library: File to write; its name is the library's.
        arguments: Sources, folders of headers, and libraries that it needs.
    """
    compiler = [os.environ.get("CXX", "c++"), "-std=c++20", "-O1", "-w", "-shared", "-fPIC", "-pthread"]
    subprocess.run([*compiler, f"-Wl,-soname,{library.name}", *arguments, "-o", str(library)], check=True)
    return library


def compile_driver(folder: Path) -> Path:
    """Return the stand-in for the driver."""
    return compile_library(folder / "libcuda.so.1", *_paths(sorted(SOURCES.glob("standin_*.cpp"))), *INCLUDES)


def compile_nccl(driver: Path) -> Path:
    """Return the stand-in for NCCL, whose operations run on the streams of a stand-in for the driver."""
    source = SOURCES / "nccl" / "standin_nccl.cpp"
    return compile_library(driver.parent / "libnccl.so.2", *_paths([source, driver]), *INCLUDES)


def _paths(files: Sequence[Path]) -> list[str]:
    return [str(file) for file in files]
