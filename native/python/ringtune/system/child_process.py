# SPDX-License-Identifier: Apache-2.0
"""A child process: its pipes, its lines with a time limit, and its end with all that it has started in its session.

A child is reaped by `Child.end` alone. Until then its process id, which is also its group's, cannot be given to another
process, so that signalling the group is always safe.
"""

import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import IO

from . import tied_program
from .event_loop import LONGEST_WAIT_S, Source, first_readable

PIPE = subprocess.PIPE
NULL = subprocess.DEVNULL
WITH_STDOUT = subprocess.STDOUT
GRACE_S = 30.0
"""Seconds between SIGTERM and SIGKILL: `ringtune run`, the slowest to end of our own, kills its ranks after 10."""
MAX_LINE_BYTES = 1 << 20
"""Longest line, bytes; a longer one is taken in pieces."""
SAID_BYTES = 1 << 14
"""End of the standard error that is kept, bytes."""
_READ_BYTES = 1 << 16
_PROGRAM = str(Path(tied_program.__file__).resolve())  # run by path, isolated: no file of the user's can shadow it


class Tie(Enum):
    """Processes that end with this one, or with the thread that started them, however that happens."""

    NONE = ""
    CHILD = tied_program.ALONE
    DESCENDANTS = tied_program.ALL
    """All that the child has started, in whichever process group; also when the child itself ends."""


class StopRequested(Exception):  # noqa: N818  (nothing is wrong: the caller wants something else)
    """The descriptor that ends the wait for a line can be read."""


class Child:
    """A started process. Used by one thread, but for `send_signal` and `exit_code`.

    Attributes:
        pid: Its process id.
        pidfd: Descriptor that is readable once it has ended.
        stdin: This process's end of its standard input; -1 without a pipe. Likewise `stdout` and `stderr`.
    """

    def __init__(
        self,
        command: Sequence[str],
        environ: Mapping[str, str] | None = None,
        *,
        stdin: int = NULL,
        stdout: int | None = PIPE,
        stderr: int | None = PIPE,
        tie: Tie = Tie.NONE,
        has_session: bool = True,
    ) -> None:
        """Start it in this process's working directory.

        Args:
            command: Program and arguments.
            environ: Its environment; None for this process's.
            stdin: `NULL`, `PIPE` or a descriptor.
            stdout: `NULL`, `PIPE` or a descriptor; None for this process's own.
            stderr: Same choice as for `stdout`, or `WITH_STDOUT`.
            tie: Processes that end with this one.
            has_session: Whether it has a session of its own, which the terminal's keys do not reach.

        Raises:
            OSError: If the system starts no more processes, or the command cannot be started and is not tied.
        """
        line = list(command)
        if tie is not Tie.NONE:
            line = [sys.executable, "-I", "-S", _PROGRAM, str(os.getpid()), tie.value, *command]
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, set() if tie is Tie.NONE else {signal.SIGINT})
        try:
            self._process = subprocess.Popen(
                line,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                env=environ,
                start_new_session=has_session,
                bufsize=0,
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        self.pid = self._process.pid
        self.stdin, self.stdout, self.stderr = (-1 if pipe is None else pipe.fileno() for pipe in self._pipes())
        self._has_session = has_session
        self._open = [descriptor for descriptor in (self.stdout, self.stderr) if descriptor >= 0]
        self._lines: deque[bytes] = deque()
        self._rest = b""
        self._said = b""
        try:
            self.pidfd = os.pidfd_open(self.pid)
        except OSError:
            self.pidfd = -1
            self._reap()
            raise

    def __enter__(self) -> "Child":  # noqa: PYI034  (typing has Self from Python 3.11 on)
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    @property
    def exit_code(self) -> int | None:
        """Its exit code, the negative signal if it was killed; None while it runs."""
        if self._process.returncode is not None:
            return self._process.returncode
        status = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if status is None:
            return None
        return status.si_status if status.si_code == os.CLD_EXITED else -status.si_status

    @property
    def said(self) -> str:
        """The end of its standard error so far, `SAID_BYTES` at most."""
        return self._said.decode("utf-8", "replace")

    def write(self, data: bytes) -> None:
        """Write to its standard input, as long as it takes; raises OSError if it reads no more."""
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self.stdin, rest) :]

    def close_stdin(self) -> None:
        """Let it read the end of its standard input; idempotent."""
        if self._process.stdin is not None:
            self._process.stdin.close()

    def next_line(self, limit_s: float | None = None, stop: Source | None = None) -> bytes | None:
        """Return the next line of its standard output, without its end; None after the last.

        Args:
            limit_s: Time limit in seconds; None waits for ever.
            stop: Descriptor that ends the wait when it can be read.

        Raises:
            TimeoutError: If there was none within the limit.
            StopRequested: If `stop` can be read.
        """
        end_s = time.monotonic() + (LONGEST_WAIT_S if limit_s is None else limit_s)
        while not self._lines and self.stdout in self._open:
            left_s = end_s - time.monotonic()
            watched = self._open if stop is None else [stop, *self._open]
            found = first_readable(watched, left_s) if left_s > 0 else None
            if found is None:
                raise TimeoutError(f"process {self.pid} has written no line within {limit_s} s")
            if found not in self._open:
                raise StopRequested
            self.take_from(found)
        return self._lines.popleft() if self._lines else None

    def take_from(self, pipe: int) -> bool:
        """Take the bytes that wait in its standard output or error; return False at the end."""
        data = os.read(pipe, _READ_BYTES)
        if not data:
            self._open.remove(pipe)
        if pipe == self.stderr:
            self._said = (self._said + data)[-SAID_BYTES:]
            return bool(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        if self._rest and (not data or len(self._rest) > MAX_LINE_BYTES):
            lines.append(self._rest)
            self._rest = b""
        self._lines.extend(lines)
        return bool(data)

    def ends_within(self, limit_s: float | None) -> bool:
        """Wait for its end, and return whether it came within a time limit; drops its output meanwhile.

        Args:
            limit_s: Time limit in seconds; None waits for ever.
        """
        end_s = time.monotonic() + (LONGEST_WAIT_S if limit_s is None else limit_s)
        while True:
            left_s = end_s - time.monotonic()
            found = first_readable([self.pidfd, *self._open], left_s)
            if found == self.pidfd:
                return True
            if found is None or left_s <= 0:
                return False
            self.take_from(found)
            self._lines.clear()

    def send_signal(self, number: int) -> None:
        """Send a signal to the child, and to its group where it has a session of its own; none once it is reaped."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                (os.killpg if self._has_session else os.kill)(self.pid, number)

    def end(self, grace_s: float = GRACE_S, *, number: int = signal.SIGTERM) -> int:
        """End it and the rest of its group, reap it, and close its pipes; idempotent.

        Args:
            grace_s: Time between the request and SIGKILL, seconds; at 0 no request is sent.
            number: Signal that requests the end.

        Returns:
            Its exit code; see `exit_code`.
        """
        if self._process.returncode is None:
            try:
                if grace_s > 0 and self.exit_code is None:
                    self.send_signal(number)
                    self.ends_within(grace_s)
            finally:
                self._reap()
        return self._process.returncode

    def _reap(self) -> None:
        self.send_signal(signal.SIGKILL)
        self._process.wait()
        while self.stderr in self._open and first_readable([self.stderr], 0.0) is not None:
            self.take_from(self.stderr)
        self._open.clear()
        for pipe in self._pipes():
            if pipe is not None:
                pipe.close()
        if self.pidfd >= 0:
            os.close(self.pidfd)

    def _pipes(self) -> tuple[IO[bytes] | None, IO[bytes] | None, IO[bytes] | None]:
        return self._process.stdin, self._process.stdout, self._process.stderr
