# SPDX-License-Identifier: Apache-2.0
"""The turn of `ringtune tune` among the jobs of this host: its first launch waits for the turn."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from ringtune.system.console import write_line
from ringtune.system.event_loop import is_readable
from ringtune.tuning.job.host_lock import host_lock

from .report import PREFIX
from .stop_request import StopRequest

LOCK_NAME = "AUTOTUNE_LOCK"
POLL_S = 0.5  # interval between two attempts, seconds


@contextmanager
def turn_on_host(environ: Mapping[str, str], stop: StopRequest) -> Iterator[bool]:
    """Hold the host's lock while inside; the value is False if the user has ended the wait for it.

    Args:
        environ: Its `AUTOTUNE_LOCK` names the lock, or switches it off.
        stop: Ends the wait.
    """
    lock = host_lock(environ.get(LOCK_NAME), lambda text: write_line(f"{PREFIX} warning: {text}"))
    has_turn = lock.try_take()
    if not has_turn:
        write_line(f"{PREFIX} {lock.holder()} is tuning; this command waits its turn ({LOCK_NAME}=0 does not wait)")
    while not has_turn and not is_readable(stop.descriptor, POLL_S):
        has_turn = lock.try_take()
    try:
        yield has_turn
    finally:
        lock.release()
