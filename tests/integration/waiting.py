# SPDX-License-Identifier: Apache-2.0
"""Waiting for what another thread or process does, with a deadline."""

import time
from collections.abc import Callable


def wait_until(is_true: Callable[[], bool], limit_s: float = 60.0) -> None:
    """Wait for something that another thread does."""
    end_s = time.monotonic() + limit_s
    while not is_true():
        assert time.monotonic() < end_s, "it did not happen in time"
        time.sleep(0.01)
