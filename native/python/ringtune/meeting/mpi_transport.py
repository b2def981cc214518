# SPDX-License-Identifier: Apache-2.0
"""Set-up of the engine's MPI transport: an initialised MPI, the plugin that fits it, a communicator.

The plugin is a small shared library, compiled once with the compiler wrapper of the MPI that the job runs under
(`ringtune.meeting.mpi_plugin`). MPI is reached through mpi4py alone.
"""

import atexit
import contextlib
import ctypes
import functools
import importlib
import os
import sys
import threading
from collections.abc import Sequence
from typing import Any

from ringtune.errors import CollectiveTimeout, ConfigError, PeerLostError
from ringtune.meeting.mpi_plugin import installed_plugin, library_name

ABANDONED_NAME = "ringtune: abandoned"
"""MPI name of a communicator on which the engine left transfers pending; native/src/transport/mpi/plugin_abi.h."""


class MpiRuntime:
    """This process's MPI: loaded through mpi4py, finalised at the end of a process that succeeded.

    MPI_Finalize waits for all ranks. A rank that failed aborts the job with its exit code. Launchers end the job of a
    rank that just ends as well, but MPICH's may report the kill of another rank then. A rank that left transfers
    pending leaves MPI as it is.

    Attributes:
        mpi: The module `mpi4py.MPI`.
    """

    def __init__(self) -> None:
        self._options = importlib.import_module("mpi4py").rc
        # If the job imported MPI before, mpi4py has read its options already and finalises MPI by itself.
        is_first = "mpi4py.MPI" not in sys.modules
        self._finalizes = is_first and self._options.finalize is None
        if is_first:
            self._options.initialize = self._options.finalize = False
        self.mpi: Any = importlib.import_module("mpi4py.MPI")
        self._pid = os.getpid()
        self._communicators: list[Any] = []
        atexit.register(self._end)

    def initialize(self) -> None:
        """Initialise MPI as mpi4py would."""
        if self._options.threads:
            self.mpi.Init_thread(getattr(self.mpi, f"THREAD_{self._options.thread_level.upper()}"))
        else:
            self.mpi.Init()

    def open_communicator(self, ranks: Sequence[int]) -> int:
        """Return the Fortran handle of a new communicator of some ranks of MPI's world; all of them call this.

        It lives as long as MPI: MPI may wait for the other ranks where one is freed, and they leave when they like.
        """
        members = self.mpi.COMM_WORLD.Get_group().Incl(list(ranks))
        communicator = self.mpi.COMM_WORLD.Create_group(members)
        self._communicators.append(communicator)
        return int(communicator.py2f())

    def _end(self) -> None:
        """See to the end of MPI, at the end of the interpreter; the exit code is known after it."""
        if os.getpid() != self._pid or not self.mpi.Is_initialized() or self.mpi.Is_finalized():
            return
        if any(communicator.Get_name() == ABANDONED_NAME for communicator in self._communicators):
            if not self._finalizes:  # mpi4py would, in a moment
                sys.stdout.flush()
                sys.stderr.flush()
                self.mpi.COMM_WORLD.Abort(1)
        elif self._finalizes:
            self._end_by_exit_code()
        elif getattr(sys, "last_value", None) is not None:  # an error that nobody caught ends this process
            with contextlib.suppress(AttributeError):  # mpi4py before 4
                self.mpi._set_abort_status(1)  # noqa: SLF001  (no public name; `python -m mpi4py` does the same)

    def _end_by_exit_code(self) -> None:
        """Have the engine's library end MPI once the exit code is known; finalise it where that is not possible."""
        engine = sys.modules.get("ringtune._engine")  # no import: tuners without an engine use this module
        if engine is None:
            self.mpi.Finalize()
            return
        try:
            library, world = ctypes.CDLL(self.mpi.__file__), self.mpi._handleof(self.mpi.COMM_WORLD)  # noqa: SLF001
            finalize, abort = (
                ctypes.cast(function, ctypes.c_void_p).value for function in (library.MPI_Finalize, library.MPI_Abort)
            )
        except (OSError, AttributeError):  # an mpi4py that hides its MPI
            self.mpi.Finalize()
            return
        engine.end_mpi_at_exit(finalize, abort, world)


@functools.cache  # MPI exists once per process
def _runtime() -> MpiRuntime:
    return MpiRuntime()


def load_mpi(launcher: str = "") -> Any:
    """Return the module `mpi4py.MPI`, initialised; sees to it that MPI ends well at exit.

    Args:
        launcher: The MPI that the launcher belongs to, such as `Open MPI`; empty where it is not known. An MPI that is
            started by another one's launcher may end the process, without a word about the cause.

    Raises:
        ConfigError: If mpi4py has loaded another MPI than the launcher's.
        ImportError: If there is no mpi4py.
        RuntimeError: If mpi4py finds no MPI.
    """
    runtime = _runtime()
    if not runtime.mpi.Is_initialized():
        if launcher not in {"", runtime.mpi.get_vendor()[0]}:
            raise ConfigError(
                f"{launcher} launched this process, but mpi4py has loaded {library_name(runtime.mpi)}; use the mpirun "
                "and the mpi4py of one environment"
            )
        runtime.initialize()
    return runtime.mpi


def find_plugin(rank: int, world_size: int) -> str:
    """Return the file of the plugin that fits the MPI which this process runs under; communicates with no other rank.

    Args:
        rank: This process in the world; MPI must call it the same.
        world_size: Number of ranks; MPI's world must have as many.

    Raises:
        ConfigError: If the MPI transport cannot be used here; the message has the reason and the remedy.
    """
    try:
        mpi = load_mpi()
    except (ImportError, RuntimeError) as error:
        raise ConfigError(
            f"the MPI transport needs mpi4py, which cannot be imported ({error}): install it with "
            "`pip install mpi4py`, or leave RINGTUNE_TRANSPORT at auto"
        ) from error
    _check_world(mpi, rank, world_size)
    if mpi.Query_thread() != mpi.THREAD_MULTIPLE:
        raise ConfigError(
            "the MPI transport needs an MPI that was initialised with MPI_THREAD_MULTIPLE, and "
            f"{library_name(mpi)} was not: leave mpi4py.rc.thread_level at 'multiple', or set RINGTUNE_TRANSPORT=tcp"
        )
    return str(installed_plugin(mpi))


def has_plugin(rank: int, world_size: int) -> bool:
    """Return whether `find_plugin` would find one, without initialising an MPI for it."""
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is None or not mpi.Is_initialized():
        return False
    try:
        find_plugin(rank, world_size)
    except ConfigError:
        return False
    return True


def open_communicator(ranks: Sequence[int], limit_s: float) -> int:
    """Return the Fortran handle of a communicator of these ranks, for an engine; all of them call this at once.

    Args:
        ranks: Ranks of MPI's world, in the order of the engine's world.
        limit_s: Longest wait for the others.

    Raises:
        CollectiveTimeout: If a rank did not come in time.
        PeerLostError: If MPI failed.
    """
    runtime = _runtime()
    handles: list[int] = []
    failures: list[Exception] = []

    def open_it() -> None:
        try:
            handles.append(runtime.open_communicator(ranks))
        except runtime.mpi.Exception as error:
            failures.append(error)

    thread = threading.Thread(target=open_it, name="ringtune-mpi", daemon=True)  # MPI has no call with a limit
    thread.start()
    thread.join(limit_s)
    if thread.is_alive():
        raise CollectiveTimeout(
            f"the ranks {list(ranks)} did not all make their MPI communicator within {limit_s:g} s; see whether one of "
            "them is stopped, or raise RINGTUNE_TIMEOUT_S"
        )
    if failures:
        raise PeerLostError(
            f"MPI could not make a communicator of the ranks {list(ranks)}: {failures[0]}"
        ) from failures[0]
    return handles[0]


def _check_world(mpi: Any, rank: int, world_size: int) -> None:
    mpi_rank, mpi_size = mpi.COMM_WORLD.Get_rank(), mpi.COMM_WORLD.Get_size()
    if (rank, world_size) != (mpi_rank, mpi_size):
        raise ConfigError(
            f"this process is rank {rank} of {world_size}, but rank {mpi_rank} of {mpi_size} in {library_name(mpi)}: "
            "the MPI transport needs the ranks of an MPI launcher; start the job with mpirun and no RINGTUNE_RANK, or "
            "leave RINGTUNE_TRANSPORT at auto"
        )
