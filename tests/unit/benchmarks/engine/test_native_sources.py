# SPDX-License-Identifier: Apache-2.0
"""C++ programs of the engine's benchmarks compile against the engine; others are compiled where they are used."""

import shutil
import subprocess

import pytest

from tests.house.source_tree import REPOSITORY

COMPILER = shutil.which("c++")
NEGOTIATION = REPOSITORY / "benchmarks" / "engine" / "native" / "negotiation" / "negotiation.cpp"


@pytest.mark.skipif(COMPILER is None, reason="no c++")
def test_negotiation_compiles() -> None:
    """`make bench` alone builds it: a changed constructor of the engine must not wait for that."""
    command = [str(COMPILER), "-std=c++20", "-fsyntax-only", "-I", str(REPOSITORY / "native" / "src"), str(NEGOTIATION)]

    compiled = subprocess.run(command, capture_output=True, text=True, check=False)

    assert 0 == compiled.returncode, compiled.stderr
