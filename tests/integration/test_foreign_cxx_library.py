# SPDX-License-Identifier: Apache-2.0
"""A process that holds parts of another C++ library, shown to all: the engine uses its own."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.integration.jobs import PROGRAMS, program

COMPILER = shutil.which("g++")


@pytest.mark.skipif(COMPILER is None, reason="no g++: another compiler's C++ library has other names")
def test_the_engine_is_bound_to_its_own_cxx_library(tmp_path: Path) -> None:
    """The engine keeps its own library beside torch for CUDA, where another one made it find no memory, or crash."""
    library = tmp_path / "libforeign.so"
    source = PROGRAMS / "foreign_cxx_library.cpp"
    subprocess.run([str(COMPILER), "-std=c++20", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)

    done = subprocess.run(
        program("averages_beside_library", str(library)), capture_output=True, text=True, timeout=120, check=False
    )

    assert (0, "[1.0, 1.0, 1.0]\n") == (done.returncode, done.stdout), done.stderr
