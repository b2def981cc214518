# SPDX-License-Identifier: Apache-2.0
"""Finds this process's place in the world: explicit variables, torch's process group, torchrun, or alone.

The first that applies holds. Torch is only looked at where the job has imported or started it: ringtune itself does
not need it here.
"""

import os
import re
import sys
from collections.abc import Mapping
from typing import Any

from ringtune.errors import ConfigError

from .rendezvous.place import Place
from .rendezvous.proof import MIN_KEY_BYTES
from .rendezvous.store import meet_in_store

MPI_NAMES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK", "MPI_LOCALNRANKS")
_ADDRESS = re.compile(r"unix:@([A-Za-z0-9._-]{1,90})")
_MAX_WORLD_SIZE = 250  # a descriptor per rank and the segment's travel in one message; the kernel's limit is 253


def find_place(environ: Mapping[str, str], generation: int, limit_s: float) -> Place:
    """Return this process's place, in the order of the module's first line.

    Args:
        environ: The environment.
        generation: How often this process has initialised before; every rank has the same number.
        limit_s: How long to wait for a store of torch's.

    Raises:
        ConfigError: If variables are missing or malformed, the job was started in a way that this version does not
            know, or ranks are on several hosts.
        CollectiveTimeout: If a store did not answer in time.
    """
    if any(name in environ for name in ("RINGTUNE_RANK", "RINGTUNE_WORLD_SIZE", "RINGTUNE_RENDEZVOUS")):
        place = _explicit_place(environ, generation)
    elif _has_process_group():
        place = _process_group_place(generation, limit_s)
    elif environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        place = _torchrun_place(environ, generation, limit_s)
    else:
        _refuse_unknown_launchers(environ)
        place = Place(rank=0, world_size=1, generation=generation, source="alone")
    if place.world_size > _MAX_WORLD_SIZE:
        raise ConfigError(f"the world size {place.world_size} is over {_MAX_WORLD_SIZE}, the most for one host")
    return place


def _explicit_place(environ: Mapping[str, str], generation: int) -> Place:
    world_size = _integer(environ, "RINGTUNE_WORLD_SIZE", low=1, high=_MAX_WORLD_SIZE)
    rank = _integer(environ, "RINGTUNE_RANK", low=0, high=world_size - 1)
    if world_size == 1:
        return Place(rank=0, world_size=1, generation=generation, source="RINGTUNE_RANK")
    address = environ.get("RINGTUNE_RENDEZVOUS", "")
    match = _ADDRESS.fullmatch(address)
    if match is None:
        raise ConfigError(
            f"RINGTUNE_RENDEZVOUS={address!r} is not allowed; allowed: unix:@NAME with up to 90 letters, digits, "
            "'.', '_' and '-', the same on all ranks"
        )
    return Place(
        rank=rank,
        world_size=world_size,
        generation=generation,
        source="RINGTUNE_RANK",
        address=f"{match[1]}.{generation}",
        job_key=_job_key(environ.get("RINGTUNE_JOB_KEY", "")),
    )


def _integer(environ: Mapping[str, str], name: str, *, low: int, high: int) -> int:
    text = environ.get(name, "")
    if not re.fullmatch(r"[0-9]{1,6}", text) or not low <= int(text) <= high:
        shown = repr(text) if name in environ else "(not set)"
        raise ConfigError(
            f"{name}={shown} is not allowed; allowed: an integer from {low} to {high}, set together with "
            "RINGTUNE_RANK, RINGTUNE_WORLD_SIZE, RINGTUNE_RENDEZVOUS and RINGTUNE_JOB_KEY"
        )
    return int(text)


def _job_key(text: str) -> bytes:
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) < MIN_KEY_BYTES:
        raise ConfigError(
            f"RINGTUNE_JOB_KEY is not allowed; allowed: at least {2 * MIN_KEY_BYTES} hexadecimal digits, random, the "
            "same on all ranks (its value is not shown)"
        )
    return key


def _has_process_group() -> bool:
    """Return whether the job has initialised torch's process group; does not import torch."""
    distributed: Any = sys.modules.get("torch.distributed")
    return distributed is not None and bool(distributed.is_available()) and bool(distributed.is_initialized())


def _process_group_place(generation: int, limit_s: float) -> Place:
    distributed: Any = sys.modules["torch.distributed"]
    place = Place(distributed.get_rank(), distributed.get_world_size(), generation, "torch.distributed")
    if place.world_size == 1:
        return place
    store = distributed.group.WORLD.get_group_store()
    return meet_in_store(distributed.PrefixStore(f"ringtune/{generation}", store), place, limit_s)


def _torchrun_place(environ: Mapping[str, str], generation: int, limit_s: float) -> Place:
    """Meet in the store of torchrun's agent, as a client: its port is the agent's and is never bound here."""
    world_size = _integer(environ, "WORLD_SIZE", low=1, high=_MAX_WORLD_SIZE)
    place = Place(_integer(environ, "RANK", low=0, high=world_size - 1), world_size, generation, "torchrun")
    if world_size == 1:
        return place
    from datetime import timedelta  # noqa: PLC0415  (with torch: only a job under torchrun pays for it)

    import torch.distributed  # noqa: PLC0415

    host, port = environ.get("MASTER_ADDR", ""), _integer(environ, "MASTER_PORT", low=1, high=65_535)
    run_id, restarts = environ.get("TORCHELASTIC_RUN_ID", ""), environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    distributed: Any = torch.distributed
    try:
        store = distributed.TCPStore(
            host, port, is_master=False, timeout=timedelta(seconds=limit_s), wait_for_workers=False
        )
    except distributed.DistError as error:
        raise ConfigError(
            f"torchrun's store at {host}:{port} (MASTER_ADDR, MASTER_PORT) cannot be reached: {error}"
        ) from error
    return meet_in_store(distributed.PrefixStore(f"ringtune/{run_id}/{restarts}/{generation}", store), place, limit_s)


def _refuse_unknown_launchers(environ: Mapping[str, str]) -> None:
    """Refuse to train alone where the environment says that this is one rank of several."""
    found = next((name for name in MPI_NAMES if name in environ), None)
    if found is not None:
        raise ConfigError(
            f"{found}={environ[found]} says that an MPI launcher started this process; launching by MPI is not in "
            "this version: use `ringtune run -np N COMMAND` or torchrun"
        )
    world_size = environ.get("WORLD_SIZE", "1")
    if world_size != "1":
        raise ConfigError(
            f"WORLD_SIZE={world_size} is set, but neither torchrun's agent store nor an initialised torch process "
            "group was found: call torch.distributed.init_process_group() before init(), use torchrun or "
            "`ringtune run`, or unset WORLD_SIZE to train alone"
        )


def environment() -> Mapping[str, str]:
    """Return the process's environment, for the callers that may read it."""
    return os.environ
