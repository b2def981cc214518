# SPDX-License-Identifier: Apache-2.0
"""A program that fails while its process groups are there."""

import sys
from pathlib import Path

import pytest

from tests.integration.jobs import ringtune, run_job
from tests.integration.torch_backend.forms import FORMS

PROGRAM = str(Path(__file__).resolve().parent / "programs" / "fails.py")


@pytest.mark.parametrize("form", FORMS)
def test_it_ends_with_its_own_error(form: str) -> None:
    """The exit code is Python's, and not that of a crash when torch lets go of its groups."""
    finished = run_job(ringtune("run", "-np", "2", "--torch-backend", sys.executable, PROGRAM, form))

    assert 1 == finished.code, finished.text
    assert "RuntimeError: an error of the program" in finished.stderr, finished.text
