# SPDX-License-Identifier: Apache-2.0
"""The table of engines: a name and a description each."""

from collections.abc import Mapping
from types import MappingProxyType

from ringtune.errors import ConfigError

from .engine import Engine
from .horovod import HOROVOD
from .mpich import MPICH
from .nccl import NCCL
from .openmpi import OPENMPI

ENGINES: Mapping[str, Engine] = MappingProxyType({engine.name: engine for engine in (OPENMPI, MPICH, NCCL, HOROVOD)})


def engine_names() -> tuple[str, ...]:
    """Return the names that `find_engine` knows."""
    return tuple(ENGINES)


def find_engine(name: str) -> Engine:
    """Return the engine of a name.

    Raises:
        ConfigError: If there is none.
    """
    if name not in ENGINES:
        raise ConfigError(f"--target {name}: not known; known are {', '.join(ENGINES)}")
    return ENGINES[name]
