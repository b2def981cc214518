# SPDX-License-Identifier: Apache-2.0
"""Signals of the test processes, and their cost: one BLAS thread, a quiet collector.

`timeout` and continuous integration send SIGTERM, which leaves no process running. A shell starts commands in its
background with SIGINT ignored; tests and the programs that they start are interrupted there as well.
"""

import gc
import os
import signal

import pytest

from tests.termination import unwind_at_sigterm

YOUNG_OBJECTS_MAX = 50_000
"""New objects before the collector looks at them, in place of 700: 15 % of a test process's time went into looking."""

unwind_at_sigterm()
signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy is not loaded yet; idle threads of BLAS spin
gc.set_threshold(YOUNG_OBJECTS_MAX, *gc.get_threshold()[1:])


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Let the collector leave alone the modules of all tests, which stay to the end."""
    gc.collect()
    gc.freeze()
