# SPDX-License-Identifier: Apache-2.0
"""Which variables the ranks get: all of the launcher's on this machine, a chosen few on other hosts."""

import os
from collections.abc import Mapping, Sequence

from ringtune.bootstrap import terminal
from ringtune.console import STDERR_DESCRIPTOR
from ringtune.variables import SERVICE_PREFIX

from .hosts import HostShare

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
JOB_KEY_NAME = "RINGTUNE_JOB_KEY"
KEPT_PREFIXES = (JOB_KEY_NAME, SERVICE_PREFIX)
"""No rank needs the settings of a service that runs here, and its admin token and database are nobody else's."""


def forwarded(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what of the launcher's environment goes to other hosts; never the job key or a service's settings."""
    return {
        name: value
        for name, value in environ.items()
        if (name in FORWARDED_NAMES or name.startswith(FORWARDED_PREFIXES)) and not name.startswith(KEPT_PREFIXES)
    }


def host_environment(share: HostShare, host_number: int, hosts: int) -> dict[str, str]:
    """Return what all ranks of a host find of their place in Horovod's names, for programs that read those.

    Args:
        share: The host and its ranks.
        host_number: Its number, from 0.
        hosts: How many hosts there are.
    """
    return {
        "HOROVOD_HOSTNAME": share.host,
        "HOROVOD_LOCAL_SIZE": str(len(share.ranks)),
        "HOROVOD_CROSS_RANK": str(host_number),
        "HOROVOD_CROSS_SIZE": str(hosts),
    }


def rank_environment(shared: Mapping[str, str], rank: int, ranks_on_host: Sequence[int]) -> dict[str, str]:
    """Return the environment of one rank, but for the job key, which comes by standard input.

    Args:
        shared: The variables that all ranks of the host have.
        rank: The rank.
        ranks_on_host: All ranks of its host; they share out its cores, unless the user has chosen a number of threads.
    """
    environment = {
        **shared,
        "RINGTUNE_RANK": str(rank),
        "HOROVOD_RANK": str(rank),
        "HOROVOD_SIZE": shared["RINGTUNE_WORLD_SIZE"],
        "HOROVOD_LOCAL_RANK": str(ranks_on_host.index(rank)),
    }
    environment.pop(JOB_KEY_NAME, None)
    environment.setdefault("OMP_NUM_THREADS", str(max(1, len(os.sched_getaffinity(0)) // len(ranks_on_host))))
    return environment


def with_screen(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of ranks whose output the launcher shows: it says how wide the terminal is, if it is one.

    Args:
        environ: Without it; what another launcher has said of its own terminal is dropped.
    """
    others = {name: value for name, value in environ.items() if name != terminal.COLUMNS_NAME}
    if not os.isatty(STDERR_DESCRIPTOR) or not terminal.can_move_cursor(environ):
        return others
    columns = os.get_terminal_size(STDERR_DESCRIPTOR).columns or terminal.DEFAULT_COLUMNS
    return {**others, terminal.COLUMNS_NAME: str(columns)}
