# SPDX-License-Identifier: Apache-2.0
"""Starts programs as forks of a process that has imported torch, each as if the interpreter had been started for it.

One server per test process; see `fork_server`. A program's output goes into a file in memory, so that no reader is
needed while it runs.
"""

import fcntl
import json
import os
import secrets
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

from tests.integration.fork_server import STATUS, Order

SELF_END_S = 30.0  # survivors of a failed rank end by themselves; more than the launcher gives them, for a busy machine
FOREVER_S = 1e6
KEY_BYTES = 32


class Process(Protocol):
    """The interface of a process or group of processes that a job needs; `subprocess.Popen` has it too."""

    returncode: int | None

    def communicate(self, input: None = None, timeout: float | None = None) -> tuple[str, str]:  # noqa: A002
        """Wait for the end; return standard output and standard error."""

    def kill(self) -> None:
        """Kill it."""


@dataclass(frozen=True)
class Forked:
    """A program that is started by a fork.

    Attributes:
        program: Path of a script, or name of a module.
        arguments: Arguments of the program.
        is_module: Whether the program is a module.
        directory: The working directory; None: that of this process.
    """

    program: Path
    arguments: tuple[str, ...]
    is_module: bool = False
    directory: Path | None = None


class Readable(Protocol):
    """An output that can be read while its program runs, and after its end."""

    def read(self) -> tuple[str, str]:
        """Return standard output and error so far."""


class Output:
    """Standard output and error of one or more processes, each a file in memory."""

    def __init__(self) -> None:
        self.descriptors = (os.memfd_create("stdout"), os.memfd_create("stderr"))
        for descriptor in self.descriptors:  # else writes of several processes could take the same place
            fcntl.fcntl(descriptor, fcntl.F_SETFL, os.O_APPEND)

    def read(self) -> tuple[str, str]:
        """Return the output so far."""
        stdout, stderr = (_text_of(descriptor) for descriptor in self.descriptors)
        return stdout, stderr

    def __del__(self) -> None:
        for descriptor in self.descriptors:
            os.close(descriptor)


class ForkedProcess:
    """A forked program, with the parts of `subprocess.Popen` that tests use."""

    def __init__(self, status: int, output: Readable) -> None:
        self._status = status
        self._output = output
        self.returncode: int | None = None
        self.pid = self._read()

    def fileno(self) -> int:
        """Return a descriptor that becomes readable when the process has ended."""
        return self._status

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal, or None while it runs."""
        if self.returncode is None and select.select([self], [], [], 0)[0]:
            self.returncode = os.waitstatus_to_exitcode(self._read())
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit code.

        Raises:
            TimeoutExpired: As `subprocess.Popen.wait`.
        """
        if self.returncode is None and not select.select([self], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
        code = self.poll()
        assert code is not None
        return code

    def communicate(self, input: None = None, timeout: float | None = None) -> tuple[str, str]:  # noqa: A002
        """Wait for the end; return the output."""
        self.wait(timeout)
        return self._output.read()

    def send_signal(self, number: int) -> None:
        """Send a signal to the process, if it runs."""
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has ended since, and the server has taken note
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill the process, if it runs."""
        self.send_signal(signal.SIGKILL)

    def _read(self) -> int:
        message = os.read(self._status, STATUS.size)
        assert message, "the fork server has ended; its standard error says why"
        return int(STATUS.unpack(message)[0])

    def __del__(self) -> None:
        os.close(self._status)


class RankGroup:
    """The forked ranks of one job. They end as under the launcher: the first that fails decides and ends the others."""

    def __init__(self, ranks: Sequence[ForkedProcess], output: Output) -> None:
        self._ranks = ranks
        self._output = output
        self.returncode: int | None = None

    def communicate(self, input: None = None, timeout: float | None = None) -> tuple[str, str]:  # noqa: A002
        """Wait for all ranks; return their outputs.

        Raises:
            TimeoutExpired: As `subprocess.Popen.communicate`.
        """
        end_s = time.monotonic() + (FOREVER_S if timeout is None else timeout)
        failure = self._wait(end_s, is_over=any)
        if failure:
            with suppress(subprocess.TimeoutExpired):
                self._wait(time.monotonic() + SELF_END_S, is_over=lambda _: False)
            self.kill()
        self.returncode = 128 - failure if failure < 0 else failure
        return self._output.read()

    def _wait(self, end_s: float, is_over: Callable[[Sequence[int]], bool]) -> int:
        """Wait until all ranks have ended, or their codes say that it is over; return the code of one that failed."""
        while True:
            running = [rank for rank in self._ranks if rank.poll() is None]
            codes = [rank.returncode or 0 for rank in self._ranks]
            if not running or is_over(codes):
                return min(codes) or max(codes)  # a killed rank, whose code is negative, is blamed first
            if not select.select(running, [], [], max(0.0, end_s - time.monotonic()))[0]:
                raise subprocess.TimeoutExpired(f"{len(running)} ranks", 0.0)

    def kill(self) -> None:
        """Kill all ranks."""
        for rank in self._ranks:
            rank.kill()


class ForkServerClient:
    """The fork server of this test process.

    Attributes:
        address: Path of the socket where `preloaded_python` leaves its orders.
    """

    def __init__(self, environ: Mapping[str, str], modules: Sequence[str] = ()) -> None:
        """Start the server.

        Args:
            environ: The server's environment; it holds a marker, as long as those of the children.
            modules: Modules that the server imports; none: those of the ranks.
        """
        self._orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._folder = tempfile.TemporaryDirectory()  # its owner's alone: who connects runs programs here
        self.address = str(Path(self._folder.name) / "strangers")
        strangers = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, strangers:
            strangers.bind(self.address)
            strangers.listen()
            passed = [theirs.fileno(), strangers.fileno()]
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.integration.fork_server", *map(str, passed), *modules],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env=environ,
                pass_fds=passed,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Process id of the server."""
        return self._process.pid

    def start(self, command: Forked, environ: Mapping[str, str], output: Output | None = None) -> ForkedProcess:
        """Start a program; several may share an output."""
        output = output or Output()
        return ForkedProcess(self.order(command, environ, output.descriptors), output)

    def order(self, command: Forked, environ: Mapping[str, str], streams: Sequence[int]) -> int:
        """Order a program with this standard output and error.

        Returns:
            A descriptor that yields the pid, and later the wait status.
        """
        directory = str(command.directory or Path.cwd())
        order = Order(str(command.program), list(command.arguments), dict(environ), directory, command.is_module)
        read_end, write_end = os.pipe()
        try:
            message = json.dumps(asdict(order)).encode()
            socket.send_fds(self._orders, [message], [*streams, write_end])
        finally:
            os.close(write_end)
        return read_end

    def start_ranks(self, count: int, command: Forked, environ: Mapping[str, str]) -> RankGroup:
        """Start a program on several ranks of this machine, with the variables of places that `ringtune run` sets."""
        job = {
            "RINGTUNE_WORLD_SIZE": str(count),
            "RINGTUNE_RENDEZVOUS": f"unix:@ringtune-{secrets.token_hex(16)}",
            "RINGTUNE_JOB_KEY": secrets.token_hex(KEY_BYTES),
        }
        output = Output()
        environs = [{**environ, **job, "RINGTUNE_RANK": str(rank)} for rank in range(count)]
        return RankGroup([self.start(command, own, output) for own in environs], output)

    def close(self) -> None:
        """End the server."""
        self._orders.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=10.0)
        self._process.kill()
        self._folder.cleanup()


def _text_of(descriptor: int) -> str:
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0).decode("utf-8", "replace")
