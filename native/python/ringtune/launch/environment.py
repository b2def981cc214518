# SPDX-License-Identifier: Apache-2.0
"""Which variables the ranks get: all of the launcher's on this machine, a chosen few on other hosts."""

import os
from collections.abc import Mapping

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


def forwarded(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what of the launcher's environment goes to other hosts; never the job key."""
    return {
        name: value
        for name, value in environ.items()
        if (name in FORWARDED_NAMES or name.startswith(FORWARDED_PREFIXES)) and name != JOB_KEY_NAME
    }


def rank_environment(shared: Mapping[str, str], rank: int, ranks_on_host: int) -> dict[str, str]:
    """Return the environment of one rank, but for the job key, which comes by standard input.

    Args:
        shared: What all ranks of the host have.
        rank: Which.
        ranks_on_host: Among how many the host's cores are shared out, unless the user has chosen a number of threads.
    """
    environment = {**shared, "RINGTUNE_RANK": str(rank)}
    environment.pop(JOB_KEY_NAME, None)
    environment.setdefault("OMP_NUM_THREADS", str(max(1, len(os.sched_getaffinity(0)) // ranks_on_host)))
    return environment
