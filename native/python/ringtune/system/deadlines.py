# SPDX-License-Identifier: Apache-2.0
"""Calls with a deadline: each runs in a daemon thread, and the caller waits no longer than the deadline allows.

A call that misses its deadline is left behind, for Python cannot stop a thread. The module is independent of the rest
of ringtune, so that the tuner and all other packages share it.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Protocol, TypeVar

T = TypeVar("T")


class DeadlineExceeded(Exception):  # noqa: N818 - an event; the caller gives it the name of its own trade
    """The call did not return in time."""


class CallDeadline(Protocol):
    """Time limit of one call, on a clock of its choice."""

    @property
    def poll_s(self) -> float:
        """Seconds until the next look at the clock, above zero."""

    def start(self) -> None:
        """Start the clock; called in the thread of the call."""

    def is_exceeded(self) -> bool:
        """Return whether the time is used up; called in the thread that waits."""


class WallDeadline:
    """Time limit on the steady clock, from the construction on."""

    def __init__(self, limit_s: float) -> None:
        """Start the clock; `limit_s` is in seconds."""
        self._end_s = time.monotonic() + limit_s

    @property
    def poll_s(self) -> float:
        """Seconds that are left, above zero."""
        return max(self._end_s - time.monotonic(), 1e-3)

    def start(self) -> None:
        """Return at once: the clock runs already."""

    def is_exceeded(self) -> bool:
        """Return whether the limit is over."""
        return time.monotonic() >= self._end_s


def call_with_deadline(call: Callable[[], T], deadline: CallDeadline, thread_name: str) -> T:
    """Return the result of `call`, or raise its error.

    Args:
        call: Runs in a daemon thread; its result after the deadline is dropped.
        deadline: The time limit, unused so far.
        thread_name: Name of the thread, for debuggers.

    Raises:
        DeadlineExceeded: If the call is late.
    """
    outcome: Future[T] = Future()

    def work() -> None:
        deadline.start()
        try:
            outcome.set_result(call())
        except BaseException as error:  # noqa: BLE001 - raised again in the caller; also a SystemExit ends here
            outcome.set_exception(error)

    threading.Thread(target=work, name=thread_name, daemon=True).start()
    while not wait([outcome], deadline.poll_s).done:
        if deadline.is_exceeded():
            raise DeadlineExceeded(f"{thread_name} did not return in time")
    return outcome.result()
