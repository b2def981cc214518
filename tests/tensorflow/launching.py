# SPDX-License-Identifier: Apache-2.0
"""Runs programs of this folder on several ranks, in the environment that runs the tests: `make test-tensorflow`.

The ranks are forked from a process that has imported TensorFlow, which takes four seconds of a core. TensorFlow has no
thread until its first operation.
"""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from ringtune.graph_operations import graph_library
from tests.integration.forked_ranks import Forked
from tests.integration.jobs import Finished, Ranks, run_job

PROGRAMS = Path(__file__).resolve().parent / "programs"

needs_operations = pytest.mark.skipif(
    not any(any(folder.glob("*.so")) for folder in graph_library.library_folders()),
    reason="the graph's operations are not built: python -m ringtune.tensorflow_op",
)
WAYS = ["numpy", pytest.param("operations", marks=needs_operations)]
"""Ways of gradients in graphs."""


def run(ranks: int, program: str, *arguments: str, environ: Mapping[str, str] | None = None) -> Finished:
    """Run a program to its end; no process of the job may be left."""
    return run_job(Ranks(ranks, forked(program, *arguments)), environ, deadline_s=540.0)


def forked(program: str, *arguments: str) -> Forked:
    """Return a program of this folder, to be forked."""
    return Forked(PROGRAMS / f"{program}.py", arguments)


def assert_all_right(finished: Finished, ranks: int) -> None:
    """Require that every rank went through every case that any of them began."""
    assert 0 == finished.code, finished.text
    begun = re.findall(r"^(\w+): begins$", finished.stdout, re.MULTILINE)
    right = re.findall(r"^(\w+): right$", finished.stdout, re.MULTILINE)
    assert begun, finished.text
    assert sorted(right) == sorted(list(set(begun)) * ranks), finished.text
