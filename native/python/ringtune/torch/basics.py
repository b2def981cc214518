# SPDX-License-Identifier: Apache-2.0
"""Joining and leaving the world, and a rank's place in it, with Horovod's names and meanings."""

from ringtune.session import SESSION


def init() -> None:
    """Join the world that the launcher or torch describes; does nothing when that was done before.

    Raises:
        ConfigError: If a setting or the launch is wrong, here or on another rank.
        CollectiveTimeout: If a rank did not come in time.
        PeerLostError: If a rank ended meanwhile.
    """
    SESSION.init()


def shutdown() -> None:
    """Leave the world; does nothing where there is none. `init()` may be called again, on all ranks."""
    SESSION.shutdown()


def is_initialized() -> bool:
    """Return whether `init()` was called, and `shutdown()` not since."""
    return SESSION.is_initialized


def rank() -> int:
    """Return this process's rank; raises `ConfigError` before `init()`."""
    return SESSION.require().rank


def size() -> int:
    """Return the number of ranks; raises `ConfigError` before `init()`."""
    return SESSION.require().size


def local_rank() -> int:
    """Return this process's number among the ranks of its host; raises `ConfigError` before `init()`."""
    return SESSION.require().local_rank


def local_size() -> int:
    """Return the number of ranks on this host; raises `ConfigError` before `init()`."""
    return SESSION.require().local_size


def cross_rank() -> int:
    """Return the number of this host among the hosts: 0, for this version has one; `ConfigError` before `init()`."""
    SESSION.require()
    return 0


def cross_size() -> int:
    """Return the number of hosts: 1 in this version; raises `ConfigError` before `init()`."""
    SESSION.require()
    return 1


def tuning_finished() -> bool:
    """Return whether the tuner has ended; true where it is off. Rank 0 knows: other ranks always say true."""
    return SESSION.is_tuning_finished


def mark_step() -> None:
    """Mark the end of a training step, where no `DistributedOptimizer` does; raises `ConfigError` before `init()`."""
    SESSION.require().engine.mark_step()
