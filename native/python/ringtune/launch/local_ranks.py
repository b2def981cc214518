# SPDX-License-Identifier: Apache-2.0
"""The ranks of this machine, in one event loop: the launcher has them for its own, a host agent for its launcher's."""

import os
import signal
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from ringtune.meeting.bootstrap.explicit import JOB_KEY_NAME
from ringtune.meeting.bootstrap.ownership import find_owner
from ringtune.system.event_loop import EventLoop, is_readable

from .processes import RankCommand, RankExit, RankProcess, start_rank
from .rank_streams import OutputTaker, RankStreams, readable_bytes, set_size

READ_BYTES = 1 << 16  # capacity of a pipe
_TERMINAL_BYTES = 1 << 20  # more than the kernel keeps for a terminal, of which it tells a part only
MESSAGE_SIGNALS = (
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGQUIT,
    signal.SIGXCPU,
    *range(signal.SIGRTMIN, signal.SIGRTMAX + 1),
)
"""Signals by which schedulers and people tell a program something, most often that its time is nearly over.

They go to the process that is the rank, where it has called `init()`: by default they end a process, and neither the
shell above it nor the data loader's workers below it have a handler. Signals that end a job go to the whole group.
"""


class LocalRanks:
    """Started, watched, signalled, and reaped: one by one where they are released, the others together at the end."""

    def __init__(self, loop: EventLoop, output: OutputTaker | None = None) -> None:
        """Begin without ranks.

        Args:
            loop: Watches them.
            output: Takes their output, if their command gives them streams to this process.
        """
        self._loop = loop
        self._output = output
        self._environments: dict[int, Mapping[str, str]] = {}
        self._processes: dict[int, RankProcess] = {}
        self._exits: dict[int, RankExit] = {}
        self._is_paused = False
        self._has_news = False
        self._open: dict[int, tuple[int, int]] = {}  # descriptor -> rank, stream
        self._last_bytes: dict[int, int] = {}  # descriptor -> unread ones of those that stood in it at the end

    @property
    def ranks(self) -> tuple[int, ...]:
        """Numbers of these ranks, without those that were released."""
        return tuple(self._environments)

    @property
    def is_drained(self) -> bool:
        """True if every stream was read to its end."""
        return not self._open

    @property
    def have_last_words(self) -> bool:
        """True if ranks that were reaped have written something that was not read yet."""
        return any(left > 0 and is_readable(descriptor) for descriptor, left in self._last_bytes.items())

    def start(self, command: RankCommand, environments: Mapping[int, Mapping[str, str]]) -> None:
        """Start ranks beside those that run.

        Args:
            command: Command that they run.
            environments: The complete environment of each rank, by rank.

        Raises:
            ConfigError: If one cannot be started; those before it run.
        """
        for rank, environment in environments.items():
            process = start_rank(command, rank, environment)
            self._environments[rank] = {**environment, JOB_KEY_NAME: command.job_key}
            self._processes[rank] = process
            self._loop.on_readable(process.child.pidfd, partial(self._note_end, process.child.pidfd))
            for stream, descriptor in enumerate(process.outputs):
                self._open[descriptor] = (rank, stream)
                if not self._is_paused:
                    self._watch(descriptor)

    def pid_of(self, rank: int) -> int:
        """Return the process id of a rank, 0 if it was not started."""
        return self._processes[rank].pid if rank in self._processes else 0

    def take_exits(self) -> list[RankExit]:
        """Return the ends since the last call; after any end every rank is looked at, so that none is missed."""
        if not self._has_news:
            return []
        self._has_news = False
        fresh = [process.peek_exit() for rank, process in self._processes.items() if rank not in self._exits]
        ended = [rank_exit for rank_exit in fresh if rank_exit is not None]
        self._exits.update({rank_exit.rank: rank_exit for rank_exit in ended})
        return ended

    def signal(self, number: int, ranks: Collection[int] | None = None) -> None:
        """Send a signal to the groups of the ranks that run; one of `MESSAGE_SIGNALS` to the ranks alone.

        Args:
            number: Number of the signal.
            ranks: Those that get it; None for all.
        """
        for rank, process in self._processes.items():
            is_meant = rank not in self._exits and (ranks is None or rank in ranks)
            if is_meant and not (number in MESSAGE_SIGNALS and self._signal_owner(rank, number)):
                process.child.send_signal(number)

    def release(self, rank: int) -> None:
        """Kill the rest of an ended rank's group, and let the kernel forget it; its output is still read."""
        if rank in self._exits:
            process = self._processes.pop(rank)
            del self._exits[rank], self._environments[rank]
            process.child.end(0)  # its pidfd is forgotten: the end was noted

    def _signal_owner(self, rank: int, number: int) -> bool:
        """Send a signal to the process that has joined as a rank; return whether there is one."""
        environ = self._environments[rank]
        owner = find_owner(environ)
        if owner is None:
            return False
        try:
            with _pidfd_of(owner) as pidfd:
                if find_owner(environ) != owner:  # its process id may be another's by now
                    return False
                signal.pidfd_send_signal(pidfd, number)
        except ProcessLookupError:
            return False
        return True

    def resize(self, streams: RankStreams) -> None:
        """Give the ranks' terminals another size and tell the ranks."""
        for descriptor in self._open:
            set_size(descriptor, streams)
        self.signal(signal.SIGWINCH)

    def set_paused(self, is_paused: bool) -> None:
        """Stop to read the ranks' output, or go on: a full pipe holds them back."""
        if is_paused != self._is_paused:
            self._is_paused = is_paused
            for descriptor in self._open:
                if is_paused:
                    self._loop.forget(descriptor)
                else:
                    self._watch(descriptor)

    def reap(self) -> None:
        """Kill the rest of every rank's group and let the kernel forget them; their output can still be read."""
        for process in self._processes.values():
            self._loop.forget(process.child.pidfd)
            process.child.end(0)
        self._last_bytes = {
            descriptor: _TERMINAL_BYTES if os.isatty(descriptor) else readable_bytes(descriptor)
            for descriptor in self._open
        }

    def close(self) -> None:
        """Give up the streams that are still open."""
        for descriptor in list(self._open):
            self._close(descriptor)

    def _note_end(self, pidfd: int) -> None:
        self._loop.forget(pidfd)
        self._has_news = True

    def _watch(self, descriptor: int) -> None:
        self._loop.on_readable(descriptor, partial(self._read, descriptor))

    def _read(self, descriptor: int) -> None:
        rank, stream = self._open[descriptor]
        try:
            data = os.read(descriptor, READ_BYTES)
        except OSError:  # nobody has the terminal open any more
            data = b""
        self._last_bytes[descriptor] = max(0, self._last_bytes.get(descriptor, 0) - len(data))
        if data and self._output is not None:
            self._output.take(rank, stream, data)
        elif not data:
            self._close(descriptor)

    def _close(self, descriptor: int) -> None:
        del self._open[descriptor]
        self._last_bytes.pop(descriptor, None)
        self._loop.forget(descriptor)
        os.close(descriptor)


@contextmanager
def _pidfd_of(pid: int) -> Iterator[int]:
    """Give a descriptor of a process; raises `ProcessLookupError` where it has ended."""
    descriptor = os.pidfd_open(pid)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
