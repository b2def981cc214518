# SPDX-License-Identifier: Apache-2.0
"""Finds this process's place in the world: given by variables, torch, MPI or Slurm, or alone.

The first that applies holds. Torch and mpi4py are only looked at where the job was started by them: ringtune itself
needs neither here.
"""

import os
from collections.abc import Callable, Mapping, MutableMapping

from ringtune.errors import ConfigError
from ringtune.meeting.rendezvous.place import Place

from . import explicit, mpi, slurm, torch_store

Finder = Callable[[Mapping[str, str], int, float], Place | None]

MPI_NAMES = mpi.NAMES
_FINDERS: tuple[Finder, ...] = (
    explicit.find,
    torch_store.find_in_process_group,
    torch_store.find_in_agent_store,
    mpi.find,
    slurm.find,
)


def find_place(environ: Mapping[str, str], generation: int, limit_s: float) -> Place:
    """Return this process's place, in the order of the module's first line.

    Args:
        environ: The environment.
        generation: Number of times that this process has initialised before; equal on every rank. A store of torch's
            keeps a count of its own.
        limit_s: Longest wait for the other ranks while rank 0's address is found.

    Raises:
        ConfigError: If variables are missing or malformed, or the job was started in a way that this version does not
            know.
        CollectiveTimeout: If rank 0, or a store, did not answer in time.
        PeerLostError: If the launcher ended meanwhile.
    """
    for find in _FINDERS:
        place = find(environ, generation, limit_s)
        if place is not None:
            return place
    _refuse_unknown_launchers(environ)
    return Place(rank=0, world_size=1, generation=generation, source="alone")


def _refuse_unknown_launchers(environ: Mapping[str, str]) -> None:
    """Refuse to train alone where the environment says that this is one rank of several."""
    world_size = environ.get("WORLD_SIZE", "1")
    if world_size != "1":
        raise ConfigError(
            f"WORLD_SIZE={world_size!r} is set, but neither torchrun's agent store nor an initialised torch process "
            "group was found: call torch.distributed.init_process_group() before init(), use torchrun or "
            "`ringtune run`, or unset WORLD_SIZE to train alone"
        )


def told_rank(environ: Mapping[str, str]) -> int:
    """Return the rank that `ringtune run` or an MPI launcher gave to this process, before it has met the others."""
    return int(next(environ[name] for name in (explicit.NAMES[0], *mpi.RANK_NAMES) if name in environ))


def environment() -> MutableMapping[str, str]:
    """Return the process's environment, for the callers that may read it, and the one that takes the job key out."""
    return os.environ
