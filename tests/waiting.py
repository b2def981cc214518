# SPDX-License-Identifier: Apache-2.0
"""Waiting for another thread's or process's work, with a deadline."""

import time
from collections.abc import Callable

LIMIT_S = 60.0
PAUSE_S = 0.01


def wait_until(is_true: Callable[[], object], limit_s: float = LIMIT_S) -> None:
    """Return once a condition holds; fail when it does not within the limit."""
    end_s = time.monotonic() + limit_s
    while not is_true():
        assert time.monotonic() < end_s, f"not so within {limit_s:.0f} s"
        time.sleep(PAUSE_S)
