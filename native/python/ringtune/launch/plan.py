# SPDX-License-Identifier: Apache-2.0
"""Plan of a launch: validated arguments, hosts of the ranks, and the ranks' environment. Starts no process."""

import os
import secrets
import shutil
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ringtune.errors import ConfigError
from ringtune.meeting.bootstrap.explicit import JOB_DIGEST_NAME, JOB_KEY_NAME
from ringtune.meeting.bootstrap.integers import MAX_WORLD_SIZE
from ringtune.meeting.bootstrap.joining import WORKER_ID_NAME
from ringtune.system.console import STDERR_DESCRIPTOR, STDOUT_DESCRIPTOR

from .environment import PLACE_NAMES, HostPlace, forwarded, host_environment, rank_environment, with_streams
from .hosts import MAX_SLOTS, HostShare, HostSlots, share_out
from .rank_streams import RankStreams

MAX_RANKS = MAX_SLOTS
KEY_BYTES = 32


@dataclass(frozen=True)
class LaunchPlan:
    """A job of several ranks.

    Attributes:
        command: Program and arguments; the same for every rank.
        shares: Ranks of each host, in ascending order; none in an elastic job, whose hosts are found while it runs.
        environment: The launcher's, with the variables of all ranks of this machine on top.
        sent: Variables that go to other hosts besides those that always do.
        directory: The working directory of every rank, on every host.
        job_key: Secret of the job, in hex; goes to the ranks by standard input.
        names_hosts: Whether the user has named hosts; otherwise all ranks are on this machine.
        streams: Kind of the ranks' standard output and error; all of it passes through the launcher.
        is_stamped: Whether each line begins with the time.
        is_prefixed: Whether each line begins with its rank.
    """

    command: tuple[str, ...]
    shares: tuple[HostShare, ...]
    environment: Mapping[str, str]
    directory: str
    job_key: str = field(repr=False)
    sent: frozenset[str] = frozenset()
    names_hosts: bool = False
    streams: RankStreams = field(default_factory=RankStreams)
    is_prefixed: bool = False
    is_stamped: bool = False

    @property
    def world_size(self) -> int:
        """Number of ranks."""
        return sum(len(share.ranks) for share in self.shares)

    @property
    def environments(self) -> tuple[Mapping[str, str], ...]:
        """The environment of each rank, as it is where the rank runs on this machine."""
        return tuple(
            rank_environment(self.host_environment_of(rank), rank, share.ranks, self.place_of(rank))
            for share in self.shares
            for rank in share.ranks
        )

    def host_environment_of(self, rank: int) -> dict[str, str]:
        """Return the environment of all ranks of a rank's host, as it is where the host is this machine."""
        share = self.shares[self.place_of(rank).number]
        return {**self.environment, **host_environment(share)}

    def forwarded_from(self, rank: int) -> dict[str, str]:
        """Return the part of the launcher's environment that goes to a rank's host, where that is another machine."""
        return forwarded(self.host_environment_of(rank), self.streams, self.sent)

    def place_of(self, rank: int) -> HostPlace:
        """Return a rank's host among the hosts."""
        number = next(number for number, share in enumerate(self.shares) if rank in share.ranks)
        return HostPlace(number, [len(share.ranks) for share in self.shares])

    def host_of(self, rank: int) -> str:
        """Return the host that a rank runs on, as the user named it."""
        return next(share.host for share in self.shares if rank in share.ranks)


def make_plan(
    command: Sequence[str],
    ranks: int,
    extra: Mapping[str, str],
    environ: Mapping[str, str],
    *,
    hosts: Sequence[HostSlots] | None = None,
    prefix_output: bool | None = None,
    stamp_output: bool = False,
) -> LaunchPlan:
    """Return the plan for a job.

    Args:
        command: Program and arguments.
        ranks: Number of ranks.
        extra: Variables that the user sends to the ranks of all hosts.
        environ: The environment that the ranks inherit: the launcher's, as its options have changed it.
        hosts: The hosts of the job; None runs all ranks on this machine.
        prefix_output: Whether lines begin with their rank; None does so where the user has named hosts, and where
            lines begin with the time.
        stamp_output: Whether lines begin with the time.

    Raises:
        ConfigError: If there is no such program or host, or the number of ranks is not possible.
    """
    shares = _shares(ranks, hosts)
    name = f"ringtune-{secrets.token_hex(16)}"
    place = {"RINGTUNE_WORLD_SIZE": str(ranks), "RINGTUNE_RENDEZVOUS": f"unix:@{name}"}
    kept = {name: value for name, value in environ.items() if name != WORKER_ID_NAME}
    plan = _checked_plan(command, extra, {**kept, **extra, **place})
    return replace(
        plan,
        shares=shares,
        names_hosts=hosts is not None,
        is_prefixed=(hosts is not None or stamp_output) if prefix_output is None else prefix_output,
        is_stamped=stamp_output,
    )


def make_elastic_plan(
    command: Sequence[str],
    extra: Mapping[str, str],
    environ: Mapping[str, str],
    *,
    prefix_output: bool | None = None,
    stamp_output: bool = False,
) -> LaunchPlan:
    """Return the plan for an elastic job: its hosts are found while it runs, and its ranks are given on arrival.

    Args:
        command: Program and arguments.
        extra: Variables that the user sends to the workers of all hosts.
        environ: The environment that the workers inherit: the launcher's, as its options have changed it.
        prefix_output: Whether lines begin with the number of their worker; None does so.
        stamp_output: Whether lines begin with the time.

    Raises:
        ConfigError: If there is no such program.
    """
    kept = {name: value for name, value in {**environ, **extra}.items() if name not in PLACE_NAMES}
    plan = _checked_plan(command, extra, kept)
    is_prefixed = prefix_output is None or prefix_output
    return replace(plan, names_hosts=True, is_prefixed=is_prefixed, is_stamped=stamp_output)


def _checked_plan(command: Sequence[str], extra: Mapping[str, str], environ: Mapping[str, str]) -> LaunchPlan:
    """Return a plan without ranks for a command that can be started."""
    if not command:
        raise ConfigError("no command was given; say for example: ringtune run -np 2 python train.py")
    if shutil.which(command[0], path=environ.get("PATH")) is None:
        is_script = command[0].endswith(".py") and Path(command[0]).is_file()
        advice = f"write: python {command[0]}" if is_script else "check its spelling and PATH"
        raise ConfigError(f"the command {command[0]!r} was not found, or cannot be executed; {advice}")
    environment = {name: value for name, value in environ.items() if name not in (JOB_KEY_NAME, JOB_DIGEST_NAME)}
    streams = RankStreams.like(STDOUT_DESCRIPTOR, STDERR_DESCRIPTOR)
    return LaunchPlan(
        command=tuple(command),
        shares=(),
        environment=with_streams(environment, streams),
        directory=_working_directory(environ),
        job_key=secrets.token_hex(KEY_BYTES),
        sent=frozenset(extra),
        streams=streams,
    )


def _shares(ranks: int, hosts: Sequence[HostSlots] | None) -> tuple[HostShare, ...]:
    if hosts is not None and not 1 <= ranks <= MAX_WORLD_SIZE:
        raise ConfigError(f"-np {ranks} is not possible; allowed: 1 to {MAX_WORLD_SIZE} ranks")
    if hosts is not None:
        return share_out(hosts, ranks)
    if not 1 <= ranks <= MAX_RANKS:
        raise ConfigError(f"-np {ranks} is not possible; allowed: 1 to {MAX_RANKS} ranks on one host")
    return (HostShare(socket.gethostname(), tuple(range(ranks))),)


def _working_directory(environ: Mapping[str, str]) -> str:
    """Return the working directory, as the shell calls it: that name is more likely to be good on other hosts."""
    try:
        actual = Path.cwd()
        named = environ.get("PWD", "")
        is_same = bool(named) and Path(named).is_absolute() and Path(named).samefile(actual)
    except OSError:
        return environ.get("PWD") or os.sep
    return named if is_same else str(actual)
