# SPDX-License-Identifier: Apache-2.0
"""A place given by an MPI, through mpi4py: rank and size out of its world, rank 0's address by its broadcast.

Bytes alone travel, by MPI's own types, without pickle.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ringtune.errors import ConfigError
from ringtune.meeting.mpi_transport import load_mpi
from ringtune.meeting.rendezvous.place import Place

from . import slurm
from .ancestors import ancestors
from .exchange import arrange
from .identity import Identity, rank_in_words
from .integers import MAX_WORLD_SIZE

OPEN_MPI_NAME = "OMPI_COMM_WORLD_SIZE"
NAMES = (OPEN_MPI_NAME, "PMI_SIZE", "PMIX_RANK", "MPI_LOCALNRANKS")
SIZE_NAMES = (OPEN_MPI_NAME, "PMI_SIZE")
RANK_NAMES = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "PMI_ID")
_PROXY_PREFIX = "hydra_"  # MPICH's and Intel's process manager, one per host: its variables do not tell jobs apart
_TEXT_BYTES = 4096


def find(environ: Mapping[str, str], generation: int, _limit_s: float) -> Place | None:
    """Return the place in MPI's world, or None where no MPI launcher started this process; see `find_place`.

    Slurm sets an MPI's variables for programs that have none, too: there its own way follows where this one ends.
    """
    found = next((name for name in NAMES if name in environ), None)
    if found is None:
        return None
    told_size = _told_size(environ)
    if told_size == 1:
        return Place(0, 1, generation, "MPI")
    mpi = _load(environ, found)
    if mpi is None or (slurm.is_step(environ) and mpi.COMM_WORLD.Get_size() == 1):
        return None
    return _place_in(mpi, told_size, found, generation)


def identify(environ: Mapping[str, str]) -> Identity | None:
    """Return the identity of a place in MPI's world; None where no launcher gives one, and in a world of one."""
    present = tuple(name for name in NAMES if name in environ)
    ranks = [environ[name] for name in RANK_NAMES if name in environ]
    told_size = _told_size(environ)
    if not present or not ranks or told_size == 1:
        return None
    job = _job(environ)
    size = "several" if told_size is None else str(told_size)
    names = (*present, *RANK_NAMES, "PMIX_NAMESPACE")
    return None if job is None else Identity(f"MPI\n{job}\n{ranks[0]}", rank_in_words(ranks[0], size), names, present)


def _job(environ: Mapping[str, str]) -> str | None:
    """Return the variable that identifies an MPI job among the others of this host; None where MPI sets none."""
    for name in ("PMIX_NAMESPACE", "PMI_PORT"):
        if environ.get(name):
            return f"{name} {environ[name]}"
    proxy = next((ancestor for ancestor in ancestors() if ancestor.name.startswith(_PROXY_PREFIX)), None)
    return None if proxy is None else f"{_PROXY_PREFIX} {proxy.pid} {proxy.start_ticks}"


def _load(environ: Mapping[str, str], found: str) -> Any:
    """Return the module `mpi4py.MPI`, which initialises MPI; None where there is none and Slurm's own way follows."""
    try:
        return load_mpi("Open MPI" if OPEN_MPI_NAME in environ else "")
    except ConfigError:
        raise
    except (ImportError, RuntimeError) as error:  # without mpi4py, and without an MPI that it can load
        if slurm.is_step(environ):
            return None
        raise ConfigError(
            f"{found}={environ[found]!r} says that an MPI launcher started this process, but mpi4py cannot be imported "
            f"({error}): install it with `pip install mpi4py` and the MPI that {found} comes from, or start the job "
            "with `ringtune run -np N COMMAND` or torchrun"
        ) from error


def _place_in(mpi: Any, told_size: int | None, found: str, generation: int) -> Place:
    world, size = mpi.COMM_WORLD, mpi.COMM_WORLD.Get_size()
    if told_size not in {None, size}:
        version = mpi.Get_library_version().splitlines()[0].strip("\0 ")
        raise ConfigError(
            f"the launcher started {told_size} ranks ({found}), but mpi4py's MPI ({version}) sees {size}: the wheel's "
            "MPI is another than the one that mpirun belongs to; use the mpirun and the mpi4py of one environment"
        )
    if size > MAX_WORLD_SIZE:
        raise ConfigError(f"MPI's world has {size} ranks; at most {MAX_WORLD_SIZE} are possible")
    place = Place(world.Get_rank(), size, generation, "MPI")
    return place if size == 1 else arrange(place, MpiExchange(world, mpi.BYTE))


def _told_size(environ: Mapping[str, str]) -> int | None:
    texts = [environ[name] for name in SIZE_NAMES if name in environ]
    return int(texts[0]) if texts and re.fullmatch(r"[0-9]{1,6}", texts[0]) else None


class MpiExchange:
    """Implements `RankChannel` by two collectives of MPI's, over memory of one size."""

    def __init__(self, communicator: Any, byte_type: Any) -> None:
        """Wrap a communicator of mpi4py; `byte_type` is `MPI.BYTE`."""
        self._communicator = communicator
        self._byte_type = byte_type

    def gather(self, text: str) -> Sequence[str]:
        """See `RankChannel`."""
        size = self._communicator.Get_size()
        gathered = bytearray(size * _TEXT_BYTES)
        self._communicator.Allgather([_padded(text), self._byte_type], [gathered, self._byte_type])
        return [_text_of(gathered[start : start + _TEXT_BYTES]) for start in range(0, len(gathered), _TEXT_BYTES)]

    def spread(self, text: str) -> str:
        """See `RankChannel`."""
        memory = _padded(text)
        self._communicator.Bcast([memory, self._byte_type], root=0)
        return _text_of(memory)


def _padded(text: str) -> bytearray:
    content = text.encode()[:_TEXT_BYTES]
    return bytearray(content.ljust(_TEXT_BYTES, b"\0"))


def _text_of(memory: bytes | bytearray) -> str:
    return bytes(memory).rstrip(b"\0").decode("utf-8", "replace")
