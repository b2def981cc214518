# SPDX-License-Identifier: Apache-2.0
"""Runs programs of this folder on several ranks, in the environment that runs the tests: `make test-tensorflow`."""

import re
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from ringtune import tensorflow_op
from tests.integration.jobs import Finished, ringtune, run_job

PROGRAMS = Path(__file__).resolve().parent / "programs"
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_NUM_INTRAOP_THREADS": "1"}

needs_operations = pytest.mark.skipif(
    not any(any(folder.glob("*.so")) for folder in tensorflow_op._folders()),
    reason="the graph's operations are not built: python -m ringtune.tensorflow_op",
)
WAYS = ["numpy", pytest.param("operations", marks=needs_operations)]
"""Ways of gradients in graphs."""


def run(ranks: int, program: str, *arguments: str, environ: Mapping[str, str] | None = None) -> Finished:
    """Run a program to its end; nothing of the job may be left."""
    command = ringtune("run", "-np", str(ranks), sys.executable, str(PROGRAMS / f"{program}.py"), *arguments)
    return run_job(command, {**QUIET, **(environ or {})}, deadline_s=540.0)


def assert_all_right(finished: Finished, ranks: int) -> None:
    """Require that every rank went through every case that any of them began."""
    assert 0 == finished.code, finished.text
    begun = re.findall(r"^(\w+): begins$", finished.stdout, re.MULTILINE)
    right = re.findall(r"^(\w+): right$", finished.stdout, re.MULTILINE)
    assert begun, finished.text
    assert sorted(right) == sorted(list(set(begun)) * ranks), finished.text
