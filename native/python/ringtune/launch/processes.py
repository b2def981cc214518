# SPDX-License-Identifier: Apache-2.0
"""The ranks as processes: started, signalled and reaped by process group, so that nothing of a rank is left behind.

A rank that ended is reaped only at the very end. Until then its process id, which is also its group's, cannot be
given to anybody else, so that signalling the group is always safe.
"""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ringtune.errors import ConfigError

from . import child
from .rank_streams import RankStreams, StreamEnds

CHILD_PROGRAM = str(Path(child.__file__).resolve())  # run by path, isolated: nothing in the user's folder can shadow it


@dataclass(frozen=True)
class RankCommand:
    """Command and environment of every rank.

    Attributes:
        arguments: Program and arguments.
        job_key: Secret of the job, in hex; goes to the ranks by standard input.
        streams: Kind of the ranks' standard output and error; None for this process's own.
    """

    arguments: tuple[str, ...]
    job_key: str = field(repr=False)
    streams: RankStreams | None = None


@dataclass(frozen=True)
class RankExit:
    """End of a rank.

    Attributes:
        rank: Number of the rank.
        code: Its exit code, 128 + the signal if it was killed.
        signal_number: The signal that killed it, or 0.
        loss: Reason why nobody knows how it ended, in words; empty where it is known. A lost rank counts as killed.
    """

    rank: int
    code: int
    signal_number: int
    loss: str = ""

    @property
    def description(self) -> str:
        """The end in words."""
        if self.loss:
            return f"was lost with its host ({self.loss})"
        if not self.signal_number:
            return f"exited with code {self.code}"
        return f"was killed by {_signal_name(self.signal_number)}"


@dataclass(frozen=True)
class RankProcess:
    """A started rank; its process id is also its process group's.

    Attributes:
        rank: Number of the rank.
        process: The process.
        pidfd: Becomes readable when it ends.
        outputs: Descriptors from which this process reads its streams, by stream; closed by their reader.
    """

    rank: int
    process: subprocess.Popen[bytes]
    pidfd: int
    outputs: tuple[int, ...] = ()

    @property
    def pid(self) -> int:
        """The process id."""
        return self.process.pid

    def peek_exit(self) -> RankExit | None:
        """Return how the rank ended, or None while it runs; leaves it unreaped."""
        status = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if status is None:
            return None
        if status.si_code == os.CLD_EXITED:
            return RankExit(self.rank, status.si_status, 0)
        return RankExit(self.rank, 128 + status.si_status, status.si_status)

    def signal_group(self, number: int) -> None:
        """Send a signal to the rank and all that it started in its group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def reap(self) -> None:
        """Kill what is left of the group and let the kernel forget the rank, which must have ended."""
        self.signal_group(signal.SIGKILL)
        self.process.wait()
        os.close(self.pidfd)


def start_rank(command: RankCommand, rank: int, environment: Mapping[str, str]) -> RankProcess:
    """Start one rank in a session of its own, in this process's working directory.

    Raises:
        ConfigError: If the system starts no more processes, or the environment is too large for it.
    """
    read_end, write_end = os.pipe()
    ends, process = None, None
    try:
        ends = None if command.streams is None else command.streams.open()
        process = _open_child(command, environment, read_end, ends)
        os.write(write_end, f"{command.job_key}\n".encode())
        return RankProcess(rank, process, os.pidfd_open(process.pid), () if ends is None else ends.readers)
    except OSError as error:
        if process is not None:
            process.kill()
            process.wait()
        if ends is not None:
            ends.close_readers()
        raise ConfigError(
            f"rank {rank} cannot be started ({error}); check the limits of processes, descriptors and memory"
        ) from error
    finally:
        os.close(read_end)
        os.close(write_end)
        if ends is not None:
            ends.close_writers()


def _open_child(
    command: RankCommand, environment: Mapping[str, str], key: int, ends: StreamEnds | None
) -> subprocess.Popen[bytes]:
    out, err = (None, None) if ends is None else ends.writers
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # `child` unblocks it when it can end quietly
    try:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", CHILD_PROGRAM, str(os.getpid()), *command.arguments],
            stdin=key,
            stdout=out,
            stderr=err,
            env=environment,
            start_new_session=True,
            bufsize=0,
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal has no name of its own
        return f"signal {number}"
