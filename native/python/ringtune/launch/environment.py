# SPDX-License-Identifier: Apache-2.0
"""Environment of the ranks: all of the launcher's variables on this machine, a chosen few on other hosts."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from ringtune.meeting.bootstrap import terminal
from ringtune.meeting.bootstrap.explicit import JOB_DIGEST_NAME, JOB_KEY_NAME
from ringtune.meeting.bootstrap.joining import WORKER_ID_NAME
from ringtune.meeting.bootstrap.torch_variables import STORE_NAMES, torch_variables
from ringtune.settings.variables import SERVICE_PREFIX, TORCH_BACKEND_NAME
from ringtune.system.usable_cores import usable_cores

from .hosts import HostShare
from .rank_streams import RankStreams

FORWARDED_PREFIXES = ("AUTOTUNE", "RINGTUNE_", "HOROVOD_")
FORWARDED_NAMES = (
    "PATH",
    "PYTHONPATH",
    "LD_LIBRARY_PATH",
    "OMP_NUM_THREADS",
    "PYTHONUNBUFFERED",
    "VIRTUAL_ENV",
    "LANG",
)
TERMINAL_NAMES = ("TERM", "COLORTERM", "NO_COLOR")
"""Go to other hosts where the ranks there have a terminal: it is this one that they draw on."""
KEPT_PREFIXES = (JOB_KEY_NAME, JOB_DIGEST_NAME, SERVICE_PREFIX)
"""Stay on this machine: no rank needs the settings of a service that runs here, with its admin token and database."""


PLACE_NAMES = (
    WORKER_ID_NAME,
    "RINGTUNE_RANK",
    "RINGTUNE_WORLD_SIZE",
    "RINGTUNE_RENDEZVOUS",
    "HOROVOD_RANK",
    "HOROVOD_SIZE",
    "HOROVOD_LOCAL_RANK",
    "HOROVOD_LOCAL_SIZE",
    "HOROVOD_CROSS_RANK",
    "HOROVOD_CROSS_SIZE",
    "HOROVOD_HOSTNAME",
)
"""Set by the launcher: each rank's place in the job."""


def forwarded(environ: Mapping[str, str], streams: RankStreams, sent: Collection[str] = ()) -> dict[str, str]:
    """Return the variables that go from the launcher to other hosts; never the job key or a service's settings.

    Args:
        environ: The environment.
        streams: Kind of the ranks' standard streams.
        sent: Names that the user has asked for, besides those that go in every job.
    """
    names = (*FORWARDED_NAMES, *sent, *(TERMINAL_NAMES if streams.has_terminal else ()))
    return {
        name: value
        for name, value in environ.items()
        if (name in names or name.startswith(FORWARDED_PREFIXES)) and not name.startswith(KEPT_PREFIXES)
    }


def forwarded_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of jobs in an environment, for ranks that a platform starts in environments of its own.

    Args:
        environ: The environment of the program that asks the platform; its own place in a job is left out.
    """
    return {
        name: value
        for name, value in environ.items()
        if name.startswith(FORWARDED_PREFIXES) and not name.startswith(KEPT_PREFIXES) and name not in PLACE_NAMES
    }


@dataclass(frozen=True)
class HostPlace:
    """A host among the hosts of a job.

    Attributes:
        number: Number of the host, from 0 in the order of the hosts' first ranks.
        ranks_per_host: Number of ranks on each host.
    """

    number: int
    ranks_per_host: Sequence[int]

    def crossing(self, local_rank: int) -> tuple[int, int]:
        """Return the number of this host's rank among the hosts' ranks with its local rank, and how many these are."""
        has_one = [ranks > local_rank for ranks in self.ranks_per_host]
        return sum(has_one[: self.number]), sum(has_one)


def host_environment(share: HostShare) -> dict[str, str]:
    """Return a host's facts in Horovod's names, for programs of its ranks that read those."""
    return {"HOROVOD_HOSTNAME": share.host, "HOROVOD_LOCAL_SIZE": str(len(share.ranks))}


def rank_environment(
    shared: Mapping[str, str], rank: int, ranks_on_host: Sequence[int], place: HostPlace
) -> dict[str, str]:
    """Return the environment of one rank, but for the job key, which comes by standard input.

    Args:
        shared: The variables that all ranks of the host have.
        rank: The rank.
        ranks_on_host: All ranks of its host; they share out its cores, unless the user has chosen a number of threads.
        place: Its host among all hosts.
    """
    local_rank = ranks_on_host.index(rank)
    cross_rank, cross_size = place.crossing(local_rank)
    environment = {
        **shared,
        "RINGTUNE_RANK": str(rank),
        "HOROVOD_RANK": str(rank),
        "HOROVOD_SIZE": shared["RINGTUNE_WORLD_SIZE"],
        "HOROVOD_LOCAL_RANK": str(local_rank),
        "HOROVOD_CROSS_RANK": str(cross_rank),
        "HOROVOD_CROSS_SIZE": str(cross_size),
    }
    if TORCH_BACKEND_NAME in shared and shared.keys() >= set(STORE_NAMES):
        address, port = (shared[name] for name in STORE_NAMES)
        environment |= torch_variables(environment, address, port)
    for name in (JOB_KEY_NAME, JOB_DIGEST_NAME):
        environment.pop(name, None)
    environment.setdefault("OMP_NUM_THREADS", str(max(1, usable_cores() // len(ranks_on_host))))
    return environment


def worker_environment(shared: Mapping[str, str], number: int, slots: int) -> dict[str, str]:
    """Return the environment of one worker of an elastic job, whose rank is given on arrival; without the job key.

    Args:
        shared: The variables that all workers of the host have.
        number: Number of the worker.
        slots: Workers that the host takes; they share out its cores, unless the user has chosen a number of threads.
    """
    environment = {**shared, WORKER_ID_NAME: str(number)}
    for name in (JOB_KEY_NAME, JOB_DIGEST_NAME):
        environment.pop(name, None)
    environment.setdefault("OMP_NUM_THREADS", str(max(1, usable_cores() // slots)))
    return environment


def with_streams(environ: Mapping[str, str], streams: RankStreams) -> dict[str, str]:
    """Return the environment of ranks with given streams: the terminal's width, and unbuffered output to pipes.

    Args:
        environ: Without it; another launcher's width of its own terminal is dropped.
        streams: Kind of the ranks' standard output and error.
    """
    environment = {name: value for name, value in environ.items() if name != terminal.COLUMNS_NAME}
    if streams.err_is_terminal and terminal.can_move_cursor(environ):
        environment[terminal.COLUMNS_NAME] = str(streams.columns)
    if not streams.out_is_terminal:
        environment.setdefault("PYTHONUNBUFFERED", "1")  # else Python would hold lines back until a pipe is full
    return environment
