# SPDX-License-Identifier: Apache-2.0
"""A place given by Slurm to the tasks of a job step, without any MPI.

Slurm's variables hold no secret. The job key is the user's, in the environment that srun forwards, or rank 0 makes it
and gives it to the tasks that prove to be the same user's: by the kernel's word on one node, by MUNGE between nodes.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from ringtune.errors import ConfigError
from ringtune.meeting.rendezvous.address import Address
from ringtune.meeting.rendezvous.place import Place

from .exchange import arrange
from .explicit import JOB_KEY_NAME, read_job_key
from .identity import Identity, rank_in_words
from .integers import MAX_WORLD_SIZE, read_integer
from .munge import Munge, SealError
from .sealed_exchange import Desk, KernelSeal, Seal, SealedExchange
from .slurm_nodes import expand_nodes, first_node_address

FIRST_PORT = 61_000  # above Linux's own range for outgoing connections, which ends at 60999
PORTS = 4_500
_NODE_NAME = re.compile(r"[A-Za-z0-9._-]+")
_TASK_NAMES = ("SLURM_STEP_ID", "SLURM_PROCID", "SLURM_JOB_ID", "SLURM_RESTART_COUNT")


def is_step(environ: Mapping[str, str]) -> bool:
    """Return whether this process is a task that srun started; a batch script is none, and trains alone."""
    return "SLURM_STEP_ID" in environ and "SLURM_PROCID" in environ


def identify(environ: Mapping[str, str]) -> Identity | None:
    """Return the identity of a task's place; None outside of a job step, or for a step of one task."""
    world_size = environ.get(_size_name(environ), "?")
    if not is_step(environ) or world_size == "1":
        return None
    text = "\n".join(("srun", *(environ.get(name, "") for name in _TASK_NAMES)))
    names = tuple(name for name in environ if name.startswith("SLURM_"))
    place = rank_in_words(environ["SLURM_PROCID"], world_size)
    return Identity(text, place, (*names, JOB_KEY_NAME), ("SLURM_STEP_ID",))


def find(environ: Mapping[str, str], generation: int, limit_s: float) -> Place | None:
    """Return the place of a task, or None outside of a job step; see `find_place`."""
    if not is_step(environ):
        return None
    world_size = read_integer(environ, _size_name(environ), low=1, high=MAX_WORLD_SIZE)
    place = Place(read_integer(environ, "SLURM_PROCID", low=0, high=world_size - 1), world_size, generation, "srun")
    if world_size == 1:
        return place
    job_key = read_job_key(environ[JOB_KEY_NAME]) if JOB_KEY_NAME in environ else b""
    job, step = (_identifier(environ, name) for name in ("SLURM_JOB_ID", "SLURM_STEP_ID"))
    nodes = _first_nodes(environ)
    seal = None if job_key else _seal(nodes, world_size)
    if len(nodes) == 1:
        address = Address("unix", f"ringtune-slurm-{os.geteuid()}-{job}-{step}.{generation}")
    else:
        address = Address("tcp", first_node_address(nodes), FIRST_PORT + (job * 31 + step) % PORTS)
    if seal is None:
        return replace(place, address=address, job_key=job_key)
    meeting = f"{job}.{step} restart {environ.get('SLURM_RESTART_COUNT', '0')} init {generation}"
    exchange = SealedExchange(place, Desk(address, meeting, seal), limit_s)
    try:
        return arrange(place, exchange, towards=address.host if address.scheme == "tcp" else "")
    finally:
        exchange.close()


def _size_name(environ: Mapping[str, str]) -> str:
    return "SLURM_STEP_NUM_TASKS" if "SLURM_STEP_NUM_TASKS" in environ else "SLURM_NTASKS"


def _first_nodes(environ: Mapping[str, str]) -> Sequence[str]:
    """Return the node of the step's first task, and another one of the step if there is any."""
    nodes = environ.get("SLURM_STEP_NODELIST") or environ.get("SLURM_NODELIST") or environ.get("SLURM_JOB_NODELIST")
    names = list(islice(expand_nodes(nodes or ""), 2))
    if len(names) == 1 or not environ.get("SLURM_DISTRIBUTION", "").startswith("arbitrary"):
        return names
    first = _first_of_hostfile(environ)
    return [first, next(name for name in names if name != first)]


def _first_of_hostfile(environ: Mapping[str, str]) -> str:
    """Return the node of the first task where the user's own file places the tasks: Slurm's list is sorted."""
    path = environ.get("SLURM_HOSTFILE", "")
    try:
        match = _NODE_NAME.match(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"SLURM_DISTRIBUTION={environ['SLURM_DISTRIBUTION']!r} places the tasks by SLURM_HOSTFILE={path!r}, which "
            f"cannot be read ({error}), so that the node of task 0 is unknown; put the file where every node reads it"
        ) from error
    if match is None:
        raise ConfigError(
            f"SLURM_HOSTFILE={path!r} is not allowed; allowed: a file that begins with the name of a node"
        )
    return match[0]


def _seal(nodes: Sequence[str], world_size: int) -> Seal:
    """Return the proof by which the tasks of a step without a job key know each other."""
    if len(nodes) == 1:
        return KernelSeal()
    try:
        return Munge()
    except SealError as error:
        raise ConfigError(
            f"srun started {world_size} tasks on several nodes, but RINGTUNE_JOB_KEY is not set, nothing that Slurm "
            f"tells is secret, and there is no munge to prove who they are ({error}): run `export "
            "RINGTUNE_JOB_KEY=$(openssl rand -hex 32)` before srun"
        ) from error


def _identifier(environ: Mapping[str, str], name: str) -> int:
    text = environ.get(name, "")
    if not re.fullmatch(r"[0-9]{1,10}", text):
        shown = repr(text) if name in environ else "(not set)"
        raise ConfigError(f"{name}={shown} is not allowed; allowed: the number that srun sets")
    return int(text)
