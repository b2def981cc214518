# SPDX-License-Identifier: Apache-2.0
"""The ranks as processes: started, signalled and reaped by process group, so that no child of a rank is left behind."""

import signal
from collections.abc import Mapping
from dataclasses import dataclass, field

from ringtune.errors import ConfigError
from ringtune.meeting.bootstrap.explicit import JOB_KEY_NAME
from ringtune.system.child_process import Child, Tie

from .rank_streams import RankStreams


@dataclass(frozen=True)
class RankCommand:
    """Command and environment of every rank.

    Attributes:
        arguments: Program and arguments.
        job_key: Secret of the job, in hex; the ranks have it in their environment.
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
        loss: Reason why its end is unknown, in words; empty where it is known. A lost rank counts as killed.
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
        try:
            name = signal.Signals(self.signal_number).name
        except ValueError:  # a real-time signal has no name of its own
            name = f"signal {self.signal_number}"
        return f"was killed by {name}"


@dataclass(frozen=True)
class RankProcess:
    """A started rank; its process id is also its process group's.

    Attributes:
        rank: Number of the rank.
        child: The process, which ends with this one.
        outputs: Descriptors from which this process reads its streams, by stream; closed by their reader.
    """

    rank: int
    child: Child
    outputs: tuple[int, ...] = ()

    @property
    def pid(self) -> int:
        """The process id."""
        return self.child.pid

    def peek_exit(self) -> RankExit | None:
        """Return how the rank ended, or None while it runs; leaves it unreaped."""
        code = self.child.exit_code
        if code is None:
            return None
        return RankExit(self.rank, code, 0) if code >= 0 else RankExit(self.rank, 128 - code, -code)


def start_rank(command: RankCommand, rank: int, environment: Mapping[str, str]) -> RankProcess:
    """Start one rank in a session of its own, in this process's working directory.

    Raises:
        ConfigError: If the system starts no more processes, or the environment is too large for it.
    """
    ends = None
    try:
        ends = None if command.streams is None else command.streams.open()
        out, err = (None, None) if ends is None else ends.writers
        child = Child(
            command.arguments,
            {**environment, JOB_KEY_NAME: command.job_key},
            stdout=out,
            stderr=err,
            tie=Tie.CHILD,
        )
    except OSError as error:
        if ends is not None:
            ends.close_readers()
        raise ConfigError(
            f"rank {rank} cannot be started ({error}); check the limits of processes, descriptors and memory"
        ) from error
    finally:
        if ends is not None:
            ends.close_writers()
    return RankProcess(rank, child, () if ends is None else ends.readers)
