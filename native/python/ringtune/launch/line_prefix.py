# SPDX-License-Identifier: Apache-2.0
"""Prefix of a rank's line: the time, the rank, both, or nothing."""

from collections.abc import Callable
from datetime import datetime


def line_prefix(*, has_rank: bool, has_time: bool) -> Callable[[int], bytes]:
    """Return a function that returns what stands before a line of a rank that is shown now.

    Args:
        has_rank: Whether the rank does, as `[3] `.
        has_time: Whether this machine's local time does, to the millisecond and with its offset from UTC.
    """

    def prefix(rank: int) -> bytes:
        time = f"{datetime.now().astimezone().isoformat(timespec='milliseconds')} " if has_time else ""
        return f"{time}[{rank}] ".encode() if has_rank else time.encode()

    return prefix
