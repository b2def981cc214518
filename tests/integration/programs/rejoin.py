# SPDX-License-Identifier: Apache-2.0
"""Joins and leaves the world many times, with a process set each time; descriptors and threads must not add up.

Arguments: how often, 20 times by default.
"""

import subprocess
import sys
import threading
from pathlib import Path

from ringtune.session.process_sets import ProcessSet
from ringtune.session.session import SESSION
from tests.integration.plain_rank import allreduce, say

TIMES = int(sys.argv[1]) if len(sys.argv) > 1 else 20


def count_descriptors() -> int:
    """Return the number of open descriptors."""
    return len(list(Path("/proc/self/fd").iterdir()))


def count_threads() -> int:
    """Return the number of threads of the process, native ones included."""
    return len(list(Path("/proc/self/task").iterdir()))


def inherited_descriptors() -> str:
    """Return the descriptors that a program started by this rank would inherit, were the framework careless."""
    listing = subprocess.run(["ls", "-l", "/proc/self/fd"], close_fds=False, capture_output=True, text=True, check=True)
    return listing.stdout


def main() -> None:
    """Repeat, and compare with the state after the first time."""
    first = None
    for _ in range(TIMES):
        first_rank = ProcessSet([0])
        SESSION.init([first_rank])
        world = SESSION.require()
        if first_rank.included():
            assert [2.0] == allreduce(first_rank.world, "x", [2.0])
        assert [world.size * 1.0] == allreduce(world, "x", [1.0])
        if first is None:
            listing = inherited_descriptors()
            assert not any(kind in listing for kind in ("memfd", "pidfd", "socket:")), listing
        SESSION.shutdown()
        first = first or (count_descriptors(), count_threads())
    assert first == (count_descriptors(), count_threads()), (first, count_descriptors(), threading.enumerate())
    say(f"{TIMES} times")


main()
