# SPDX-License-Identifier: Apache-2.0
"""What the launcher is to start: validated arguments and the environment of each rank. Starts nothing."""

import os
import secrets
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ringtune.errors import ConfigError

MAX_RANKS = 250
KEY_BYTES = 32


@dataclass(frozen=True)
class LaunchPlan:
    """A job of several ranks on this host.

    Attributes:
        command: Program and arguments; the same for every rank.
        environments: One complete environment per rank.
        job_key: Secret of the job, in hex; goes to the ranks by standard input.
    """

    command: tuple[str, ...]
    environments: tuple[Mapping[str, str], ...]
    job_key: str = field(repr=False)


def make_plan(command: Sequence[str], ranks: int, extra: Mapping[str, str], environ: Mapping[str, str]) -> LaunchPlan:
    """Return the plan for a job.

    Args:
        command: Program and arguments.
        ranks: Number of ranks.
        extra: Variables that the launcher's options set.
        environ: The launcher's environment, which the ranks inherit.

    Raises:
        ConfigError: If there is no such program or the number of ranks is not possible.
    """
    if not command:
        raise ConfigError("no command was given; say for example: ringtune run -np 2 python train.py")
    if not 1 <= ranks <= MAX_RANKS:
        raise ConfigError(f"-np {ranks} is not possible; allowed: 1 to {MAX_RANKS} ranks on one host")
    if shutil.which(command[0], path=environ.get("PATH")) is None:
        raise ConfigError(
            f"the command {command[0]!r} was not found, or cannot be executed; check its spelling and PATH"
        )
    name = f"ringtune-{secrets.token_hex(16)}"
    common = {**environ, **extra, "RINGTUNE_WORLD_SIZE": str(ranks), "RINGTUNE_RENDEZVOUS": f"unix:@{name}"}
    common.pop("RINGTUNE_JOB_KEY", None)
    common.setdefault("OMP_NUM_THREADS", str(max(1, len(os.sched_getaffinity(0)) // ranks)))
    environments = tuple({**common, "RINGTUNE_RANK": str(rank)} for rank in range(ranks))
    return LaunchPlan(tuple(command), environments, secrets.token_hex(KEY_BYTES))
