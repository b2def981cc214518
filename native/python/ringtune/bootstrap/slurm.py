# SPDX-License-Identifier: Apache-2.0
"""A place that Slurm tells to the tasks of a job step, without any MPI.

Nothing that Slurm tells is secret: the job key must come from the user, in the environment that srun forwards.
"""

import os
import re
from collections.abc import Iterator, Mapping
from itertools import islice

from ringtune.errors import ConfigError
from ringtune.rendezvous.address import Address
from ringtune.rendezvous.place import Place

from .explicit import read_job_key
from .identity import Identity
from .integers import MAX_WORLD_SIZE, read_integer

FIRST_PORT = 61_000  # above Linux's own range for outgoing connections, which ends at 60999
PORTS = 4_500
_COMMA_OUTSIDE_BRACKETS = re.compile(r",(?![^\[]*\])")
_RANGE = r"[0-9]{1,6}(?:-[0-9]{1,6})?"
_NODES = re.compile(
    rf"(?P<prefix>[A-Za-z0-9._-]+)(?:\[(?P<ranges>{_RANGE}(?:,{_RANGE})*)\])?(?P<suffix>[A-Za-z0-9._-]*)"
)

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
    return Identity(text, environ["SLURM_PROCID"], world_size, (*names, "RINGTUNE_JOB_KEY"), ("SLURM_STEP_ID",))


def find(environ: Mapping[str, str], generation: int, _limit_s: float) -> Place | None:
    """Return the place of a task, or None outside of a job step; see `find_place`."""
    if not is_step(environ):
        return None
    world_size = read_integer(environ, _size_name(environ), low=1, high=MAX_WORLD_SIZE)
    place = Place(read_integer(environ, "SLURM_PROCID", low=0, high=world_size - 1), world_size, generation, "srun")
    if world_size == 1:
        return place
    if "RINGTUNE_JOB_KEY" not in environ:
        raise ConfigError(
            f"srun started {world_size} tasks, but RINGTUNE_JOB_KEY is not set, and nothing that Slurm tells is "
            "secret: run `export RINGTUNE_JOB_KEY=$(openssl rand -hex 32)` before srun"
        )
    key = read_job_key(environ["RINGTUNE_JOB_KEY"])
    return Place(place.rank, world_size, generation, "srun", _address(environ, generation), key)


def _size_name(environ: Mapping[str, str]) -> str:
    return "SLURM_STEP_NUM_TASKS" if "SLURM_STEP_NUM_TASKS" in environ else "SLURM_NTASKS"


def _address(environ: Mapping[str, str], generation: int) -> Address:
    """Return where the first task listens: it runs on the step's first node."""
    job, step = (_identifier(environ, name) for name in ("SLURM_JOB_ID", "SLURM_STEP_ID"))
    nodes = environ.get("SLURM_STEP_NODELIST") or environ.get("SLURM_NODELIST") or environ.get("SLURM_JOB_NODELIST")
    names = list(islice(expand_nodes(nodes or ""), 2))
    if len(names) == 1:
        return Address("unix", f"ringtune-slurm-{os.getuid()}-{job}-{step}.{generation}")
    return Address("tcp", names[0], FIRST_PORT + (job * 31 + step) % PORTS)


def _identifier(environ: Mapping[str, str], name: str) -> int:
    text = environ.get(name, "")
    if not re.fullmatch(r"[0-9]{1,10}", text):
        shown = repr(text) if name in environ else "(not set)"
        raise ConfigError(f"{name}={shown} is not allowed; allowed: the number that srun sets")
    return int(text)


def expand_nodes(nodes: str) -> Iterator[str]:
    """Yield the names in a list of Slurm's, such as `gpu[01-03,7],login`.

    Raises:
        ConfigError: If it is empty or not of that form.
    """
    if not nodes:
        raise ConfigError(
            "SLURM_STEP_NODELIST=(not set) is not allowed; allowed: the nodes of the step, as srun sets it"
        )
    for part in _COMMA_OUTSIDE_BRACKETS.split(nodes):
        match = _NODES.fullmatch(part)
        if match is None:
            raise ConfigError(
                f"SLURM_STEP_NODELIST={nodes!r} is not allowed; allowed: names such as gpu[01-03,7],login"
            )
        yield from (f"{match['prefix']}{number}{match['suffix']}" for number in _numbers(match["ranges"]))


def _numbers(ranges: str | None) -> Iterator[str]:
    if ranges is None:
        yield ""
        return
    for item in ranges.split(","):
        first, _, last = item.partition("-")
        for number in range(int(first), int(last or first) + 1):
            yield str(number).zfill(len(first))
