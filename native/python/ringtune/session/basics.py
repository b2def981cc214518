# SPDX-License-Identifier: Apache-2.0
"""Joining and leaving the world, a rank's place in it, and its capabilities, with Horovod's names and meanings."""

import importlib.util
import os
from collections.abc import Iterable, Sequence

from ringtune import _engine
from ringtune.errors import CollectiveTimeout, ConfigError, DismissedError, PeerLostError
from ringtune.identity.gpu_facts import installed_nccl
from ringtune.meeting.mpi_transport import load_mpi
from ringtune.session.process_sets import ProcessSet
from ringtune.session.session import SESSION
from ringtune.system.console import write_line

MAX_FAILED_MEETINGS = 20  # meetings in a row that fail before `init` gives up; each lost worker spoils one at most


def init(comm: None = None, process_sets: Iterable[ProcessSet | Iterable[int]] | str | None = None) -> None:
    """Join the world that the launcher or torch describes; returns at once when that was done before.

    Under a rendezvous server (`RINGTUNE_RENDEZVOUS=join://HOST:PORT`), a meeting that fails because a worker ends
    meanwhile is followed by another one, and the process of a worker that the launcher does not need any more ends here
    with code 0.

    Args:
        comm: Horovod's; not supported: make a process set instead.
        process_sets: Sets to add at once, the same on all ranks; `"dynamic"` is accepted, for sets can always be added.

    Raises:
        ConfigError: If a setting or the launch is wrong, here or on another rank.
        CollectiveTimeout: If a rank did not come in time.
        PeerLostError: If a rank ended meanwhile.
        RendezvousError: If a rendezvous server gives this process no place.
    """
    if comm is not None:
        raise ConfigError("init(comm=...) is not supported; use init(process_sets=[...]) for a part of the ranks")
    if isinstance(process_sets, str) and process_sets != "dynamic":
        raise ConfigError(f'process_sets={process_sets!r} is not possible; give process sets, or "dynamic"')
    given = () if process_sets is None or isinstance(process_sets, str) else process_sets
    sets = [one if isinstance(one, ProcessSet) else ProcessSet(one) for one in given]  # iterators are read once
    failures = 0
    while not _has_joined(sets, may_ask_again=failures < MAX_FAILED_MEETINGS):
        failures += 1


def _has_joined(process_sets: Sequence[ProcessSet], *, may_ask_again: bool) -> bool:
    """Join; return False if the meeting failed, and there will be another one."""
    try:
        SESSION.init(process_sets)
    except DismissedError as error:
        write_line(f"ringtune: info: pid {os.getpid()} is not needed any more: {error}")
        raise SystemExit(0) from None
    except (PeerLostError, CollectiveTimeout) as error:
        if SESSION.rendezvous is None or not may_ask_again:
            raise
        write_line(f"ringtune: warning: pid {os.getpid()} asks for another meeting, for one has failed: {error}")
        return False
    return True


def shutdown() -> None:
    """Leave the world; returns at once where there is none. `init()` may be called again, on all ranks."""
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
    """Return this rank's number among those with its local rank on all hosts; raises `ConfigError` before `init()`."""
    return SESSION.require().cross_rank


def cross_size() -> int:
    """Return how many ranks have this one's local rank, on all hosts; raises `ConfigError` before `init()`."""
    return SESSION.require().cross_size


def is_homogeneous() -> bool:
    """Return whether every host has as many ranks; raises `ConfigError` before `init()`."""
    return len(set(SESSION.require().layout.ranks_per_host)) == 1


def tuning_finished() -> bool:
    """Return whether the tuner has come to a decision; true where it is off.

    The answer changes after the same step on every rank, so that `while not tuning_finished()` around training ends
    everywhere at once. The call sends no message: ranks may ask as often as they like. It turns false again if the
    tuner later calls its decision into question.
    """
    return SESSION.is_tuning_finished


def mark_step() -> None:
    """Mark the end of a training step, where no `DistributedOptimizer` does; raises `ConfigError` before `init()`."""
    SESSION.require().engine.mark_step()


def start_timeline(file_path: str, mark_cycles: bool = False) -> None:  # noqa: FBT002  (Horovod's signature)
    """Begin to write a Chrome trace of the engine's operations; call it on every rank.

    Args:
        file_path: File of rank 0's trace; other ranks put their rank into the name.
        mark_cycles: Whether the trace shows the engine's cycles.

    Raises:
        ConfigError: Before `init()`, if the file cannot be written, or while a trace is written.
    """
    SESSION.require().engine.start_timeline(str(file_path), mark_cycles)


def stop_timeline() -> None:
    """Finish the trace; returns at once where none is written; raises `ConfigError` before `init()`."""
    SESSION.require().engine.stop_timeline()


def mpi_enabled() -> bool:
    """Return whether MPI carries this job's data; raises `ConfigError` before `init()`."""
    return SESSION.require().carrier == "mpi"


def mpi_built() -> bool:
    """Return whether this installation can use MPI: whether mpi4py is here."""
    return importlib.util.find_spec("mpi4py") is not None


def mpi_threads_supported() -> bool:
    """Return whether MPI may be called from several threads of this process; false where MPI carries no data.

    Raises:
        ConfigError: Before `init()`.
    """
    if not mpi_enabled():
        return False
    mpi = load_mpi()
    return bool(mpi.Query_thread() == mpi.THREAD_MULTIPLE)


def gloo_enabled() -> bool:
    """Return False: data between hosts goes over this engine's own TCP, or MPI."""
    return False


def gloo_built() -> bool:
    """Return False; see `gloo_enabled`."""
    return False


def nccl_built() -> int:
    """Return the installed NCCL's version as a number, such as 22705 for 2.27.5; 0 without GPU or NCCL."""
    version = installed_nccl() if _engine.has_cuda() else None
    if version is None:
        return 0
    major, minor, patch = (int(part) for part in version.split(".")[:3])
    return major * 10_000 + minor * 100 + patch


def ddl_built() -> bool:
    """Return False: there is no IBM DDL."""
    return False


def ccl_built() -> bool:
    """Return False: there is no oneCCL."""
    return False


def cuda_built() -> bool:
    """Return whether the engine finds a CUDA driver and a device; no context is made on it."""
    return _engine.has_cuda()


def rocm_built() -> bool:
    """Return False: tensors on AMD's devices are not taken."""
    return False
