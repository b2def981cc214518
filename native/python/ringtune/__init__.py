# SPDX-License-Identifier: Apache-2.0
"""Ringtune: an allreduce engine that tunes itself while the job trains.

Training code imports a front end, such as `ringtune.torch`. Importing this package alone costs nothing: no framework,
no engine.
"""

from .errors import (
    CollectiveTimeout,
    ConfigError,
    EngineError,
    ForkedProcessError,
    HorovodInternalError,
    MismatchError,
    PeerLostError,
    RingtuneError,
    StoreError,
)

__version__ = "0.1.0"

__all__ = [
    "CollectiveTimeout",
    "ConfigError",
    "EngineError",
    "ForkedProcessError",
    "HorovodInternalError",
    "MismatchError",
    "PeerLostError",
    "RingtuneError",
    "StoreError",
    "__version__",
    "mark_step",
]


def mark_step() -> None:
    """Mark the end of a training step, where no `DistributedOptimizer` does.

    Raises:
        ConfigError: If no front end's `init()` was called.
        EngineError: If the world is lost.
    """
    from .session import SESSION  # noqa: PLC0415  (loads the engine, which importing the package must not)

    SESSION.require().engine.mark_step()
