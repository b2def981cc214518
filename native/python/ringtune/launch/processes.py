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
from dataclasses import dataclass
from pathlib import Path

from . import child
from .plan import LaunchPlan

CHILD_PROGRAM = str(Path(child.__file__).resolve())  # run by path, isolated: nothing in the user's folder can shadow it


@dataclass(frozen=True)
class RankExit:
    """How a rank ended.

    Attributes:
        rank: Which.
        code: Its exit code, 128 + the signal if it was killed.
        signal_number: The signal that killed it, or 0.
    """

    rank: int
    code: int
    signal_number: int

    @property
    def description(self) -> str:
        """How it ended, in words."""
        if not self.signal_number:
            return f"exited with code {self.code}"
        return f"was killed by {signal.Signals(self.signal_number).name}"


@dataclass(frozen=True)
class RankProcess:
    """A started rank; its process id is also its process group's."""

    rank: int
    process: subprocess.Popen[bytes]
    pidfd: int

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


def start_rank(plan: LaunchPlan, rank: int) -> RankProcess:
    """Start one rank in a session of its own, with the launcher's output streams."""
    read_end, write_end = os.pipe()
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", CHILD_PROGRAM, str(os.getpid()), *plan.command],
            stdin=read_end,
            env=plan.environments[rank],
            start_new_session=True,
        )
        os.write(write_end, f"{plan.job_key}\n".encode())
    finally:
        os.close(read_end)
        os.close(write_end)
    return RankProcess(rank, process, os.pidfd_open(process.pid))
