# SPDX-License-Identifier: Apache-2.0
"""`ringtune run` on this host: start the ranks, watch them, and end them together.

The first rank that fails decides the exit code. The others get a moment to end by themselves, for the engine tells
them within two seconds; then they are asked, then killed.
"""

import os
import selectors
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

from ringtune.console import write_line

from .plan import LaunchPlan
from .processes import RankExit, RankProcess, start_rank

SELF_END_S = 5.0  # survivors of a failed rank end by themselves: they get PeerLostError within 2 s
TERM_S = 10.0  # from SIGTERM, or the user's signal, to SIGKILL
FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Launcher:
    """One job. `run()` is called once, from the main thread."""

    def __init__(self, plan: LaunchPlan) -> None:
        self._plan = plan
        self._ranks: list[RankProcess] = []
        self._exits: dict[int, RankExit] = {}
        self._first_failure: RankExit | None = None
        self._received_signal = 0
        self._kill_at_s = float("inf")
        self._term_at_s = float("inf")

    def run(self) -> int:
        """Start the ranks and return the job's exit code once none is left.

        Returns:
            0, or the code of the first rank that failed: 128 + the signal if it was killed.
        """
        with _signals_as_bytes() as signal_pipe, selectors.DefaultSelector() as selector:
            selector.register(signal_pipe, selectors.EVENT_READ)
            try:
                for rank in range(len(self._plan.environments)):
                    self._ranks.append(start_rank(self._plan, rank))
                    selector.register(self._ranks[rank].pidfd, selectors.EVENT_READ)
                self._watch(selector, signal_pipe)
            finally:
                for process in self._ranks:
                    process.reap()
        return self._exit_code()

    def _watch(self, selector: selectors.BaseSelector, signal_pipe: int) -> None:
        while len(self._exits) < len(self._ranks):
            for key, _ in selector.select(self._seconds_to_deadline()):
                if key.fd == signal_pipe:
                    for number in os.read(signal_pipe, 64):
                        self._forward(number)
                else:
                    selector.unregister(key.fd)
            self._note_exits()
            self._act_on_deadlines()

    def _note_exits(self) -> None:
        """Look at every rank, so that of those that ended together a killed one is blamed first."""
        fresh = [process.peek_exit() for process in self._ranks if process.rank not in self._exits]
        ended = sorted((rank_exit for rank_exit in fresh if rank_exit), key=lambda e: (not e.signal_number, e.rank))
        for rank_exit in ended:
            self._exits[rank_exit.rank] = rank_exit
            if rank_exit.code != 0 and self._first_failure is None:
                self._first_failure = rank_exit
                self._term_at_s = min(self._term_at_s, time.monotonic() + SELF_END_S)

    def _forward(self, number: int) -> None:
        """Pass the user's signal on; the second one is taken for impatience."""
        is_second = self._received_signal != 0
        self._received_signal = self._received_signal or number
        self._signal_living(signal.SIGKILL if is_second else number)
        self._kill_at_s = min(self._kill_at_s, time.monotonic() + TERM_S)

    def _act_on_deadlines(self) -> None:
        now_s = time.monotonic()
        if now_s >= self._term_at_s:
            self._term_at_s = float("inf")
            self._signal_living(signal.SIGTERM)
            self._signal_living(signal.SIGCONT)  # a stopped rank would not see it otherwise
            self._kill_at_s = min(self._kill_at_s, now_s + TERM_S)
        if now_s >= self._kill_at_s:
            self._kill_at_s = float("inf")
            self._signal_living(signal.SIGKILL)

    def _signal_living(self, number: int) -> None:
        for process in self._ranks:
            if process.rank not in self._exits:
                process.signal_group(number)

    def _seconds_to_deadline(self) -> float | None:
        deadline_s = min(self._term_at_s, self._kill_at_s)
        return None if deadline_s == float("inf") else max(0.0, deadline_s - time.monotonic())

    def _exit_code(self) -> int:
        if self._received_signal:
            name = signal.Signals(self._received_signal).name
            write_line(f"ringtune run: ended by {name}, which was passed on to all {len(self._ranks)} ranks.")
            return 128 + self._received_signal
        failure = self._first_failure
        if failure is None:
            return 0
        pid = self._ranks[failure.rank].pid
        others = sum(1 for rank_exit in self._exits.values() if rank_exit.code != 0) - 1
        rest = f" {others} other ranks failed after it." if others else ""
        write_line(
            f"ringtune run: rank {failure.rank} of {len(self._ranks)} (pid {pid}) {failure.description}, the first to "
            f"fail; the job was ended.{rest} Its own messages are above."
        )
        return failure.code


@contextmanager
def _signals_as_bytes() -> Iterator[int]:
    """Turn signals into bytes of a pipe while the job runs, so that one loop waits for everything."""
    read_end, write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    heeded = [number for number in FORWARDED if signal.getsignal(number) is not signal.SIG_IGN]  # nohup stays nohup
    old_handlers = {number: signal.signal(number, _ignore) for number in heeded}
    old_descriptor = signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    try:
        yield read_end
    finally:
        signal.set_wakeup_fd(old_descriptor)
        for number, handler in old_handlers.items():
            signal.signal(number, handler)
        os.close(read_end)
        os.close(write_end)


def _ignore(_number: int, _frame: object) -> None:
    """Do nothing: the number reaches the loop through the pipe."""
