# SPDX-License-Identifier: Apache-2.0
"""A file that has a byte for each step of a training, so that other processes can wait for a step."""

import time
from pathlib import Path

LIMIT_S = 300.0


def count_step(steps: Path) -> None:
    """Count a step."""
    with steps.open("ab") as file:
        file.write(b".")


def wait_for_steps(steps: Path, count: int) -> None:
    """Wait until so many steps are counted."""
    end_s = time.monotonic() + LIMIT_S
    while count and (not steps.exists() or steps.stat().st_size < count):
        assert time.monotonic() < end_s, f"fewer than {count} steps"
        time.sleep(0.01)
