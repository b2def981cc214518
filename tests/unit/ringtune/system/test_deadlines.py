# SPDX-License-Identifier: Apache-2.0
"""Calls with a deadline."""

import sys
import threading
from collections.abc import Iterator

import pytest

from ringtune.system.deadlines import DeadlineExceeded, WallDeadline, call_with_deadline

LONG_S = 60.0


@pytest.fixture
def hang() -> Iterator[threading.Event]:
    """Return an event that is set only at the end: a call that waits for it hangs."""
    event = threading.Event()
    yield event
    event.set()


class Switch:
    """A deadline that a test ends."""

    poll_s = 0.01

    def __init__(self) -> None:
        self.starter: int | None = None
        self.is_over = False

    def start(self) -> None:
        """Remember the thread."""
        self.starter = threading.get_ident()

    def is_exceeded(self) -> bool:
        """Return the flag that the test has set."""
        return self.is_over


def test_a_value_and_an_error_come_through() -> None:
    """In time it is as if the call had been made here, also for an error that ends programs."""
    assert 3 == call_with_deadline(lambda: 3, WallDeadline(LONG_S), "call")
    with pytest.raises(ZeroDivisionError):
        call_with_deadline(lambda: 1 // 0, WallDeadline(LONG_S), "call")
    with pytest.raises(SystemExit):
        call_with_deadline(sys.exit, WallDeadline(LONG_S), "call")


def test_a_late_call_is_left_behind_in_a_daemon_thread(hang: threading.Event) -> None:
    """The late call's thread has its name, and does not keep the process alive."""
    with pytest.raises(DeadlineExceeded, match="late call"):
        call_with_deadline(hang.wait, WallDeadline(0.05), "late call")

    (left,) = (thread for thread in threading.enumerate() if thread.name == "late call")
    assert left.daemon


def test_the_deadline_decides_and_its_clock_starts_in_the_thread(hang: threading.Event) -> None:
    """A clock of processor time belongs to the thread that works, not to the one that waits."""
    switch = Switch()
    runner: list[int] = []

    def work() -> None:
        runner.append(threading.get_ident())
        switch.is_over = True
        hang.wait()

    with pytest.raises(DeadlineExceeded):
        call_with_deadline(work, switch, "call")

    assert [switch.starter] == runner != [threading.get_ident()]
