# SPDX-License-Identifier: Apache-2.0
"""Collectives on numpy arrays in real jobs, without any framework."""

import sys

import pytest

from tests.integration.jobs import ringtune, run_job
from tests.tensorflow.launching import PROGRAMS, assert_all_right


@pytest.mark.parametrize("ranks", [1, 3])
def test_every_operation_on_arrays_is_right(ranks: int) -> None:
    """All operations of all dtypes and awkward shapes give the results of a local reference."""
    launch = ringtune("run", "-np", str(ranks), sys.executable, str(PROGRAMS / "arrays.py"))  # forks have a framework

    assert_all_right(run_job(launch), ranks)
