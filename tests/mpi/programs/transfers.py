# SPDX-License-Identifier: Apache-2.0
"""Two ranks speak to the MPI transport's plugin through its C interface, and check how it handles errors."""

import ctypes
import os
import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from mpi4py import MPI

from ringtune.meeting.mpi_plugin import installed_plugin
from ringtune.meeting.mpi_transport import ABANDONED_NAME
from tests.integration.plain_rank import say

Bytes = npt.NDArray[np.uint8]
LIMIT_S = 30.0
TEXT_BYTES = 1024
RANK = MPI.COMM_WORLD.Get_rank()
PEER = 1 - RANK
BUFFER = ctypes.c_void_p
SIZE = ctypes.c_size_t


class Progress(ctypes.Structure):
    """RingtuneMpiProgress of native/src/transport/mpi/plugin_abi.h."""

    _fields_ = (("sent_bytes", ctypes.c_uint64), ("received_bytes", ctypes.c_uint64), ("pending", ctypes.c_uint64))


class Plugin(ctypes.Structure):
    """RingtuneMpiPlugin of native/src/transport/mpi/plugin_abi.h."""

    _fields_ = (
        ("version", ctypes.c_uint32),
        ("open", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.POINTER(BUFFER), ctypes.c_char_p, SIZE)),
        (
            "start",
            ctypes.CFUNCTYPE(
                ctypes.c_int, BUFFER, ctypes.c_int, BUFFER, SIZE, ctypes.c_int, BUFFER, SIZE, ctypes.c_char_p, SIZE
            ),
        ),
        ("test", ctypes.CFUNCTYPE(ctypes.c_int, BUFFER, ctypes.POINTER(Progress), ctypes.c_char_p, SIZE)),
        ("cancel", ctypes.CFUNCTYPE(None, BUFFER)),
        ("abandon", ctypes.CFUNCTYPE(None, BUFFER)),
        ("close", ctypes.CFUNCTYPE(None, BUFFER)),
    )


class Session:
    """A communicator of its own, opened in the plugin."""

    def __init__(self) -> None:
        library = ctypes.CDLL(str(installed_plugin(MPI)))
        library.ringtune_mpi_plugin.restype = ctypes.POINTER(Plugin)
        self.plugin = library.ringtune_mpi_plugin().contents
        self.communicator = MPI.COMM_WORLD.Dup()
        self.text = ctypes.create_string_buffer(TEXT_BYTES)
        self.session = BUFFER()
        handle = self.communicator.py2f()
        assert 0 == self.plugin.open(handle, ctypes.byref(self.session), self.text, TEXT_BYTES), self.text.value

    def start(self, out: Bytes, into: Bytes) -> None:
        """Begin to send and to receive."""
        self.buffers = (out, into)  # they must live until all is through
        sides = (PEER, out.ctypes.data, out.nbytes, PEER, into.ctypes.data, into.nbytes)
        assert 0 == self.plugin.start(self.session, *sides, self.text, TEXT_BYTES), self.text.value

    def test(self) -> tuple[str, Progress]:
        """Return the failure, empty for none, and the progress."""
        progress = Progress()
        code = self.plugin.test(self.session, ctypes.byref(progress), self.text, TEXT_BYTES)
        return (self.text.value.decode() if code else ""), progress

    def finish(self) -> str:
        """Wait until all transfers are through or one failed; return the failure."""
        end_s = time.monotonic() + LIMIT_S
        while time.monotonic() < end_s:
            failure, progress = self.test()
            if failure or progress.pending == 0:
                return failure
            os.sched_yield()
        raise AssertionError("the transfer did not end")


def bytes_of(count: int, rank: int) -> Bytes:
    """Return bytes that differ from rank to rank and from message to message of 16 MiB."""
    places = np.arange(count, dtype=np.uint32)
    return (places * 31 + (places >> 24) + rank).astype(np.uint8)


def check_many_pieces() -> None:
    """Both ways at once, a little over three messages."""
    session, into = Session(), np.zeros((3 << 24) + 17, np.uint8)
    session.start(bytes_of(into.size, RANK), into)
    failure = session.finish()
    assert failure == "", failure
    _, progress = session.test()
    assert (into.size, into.size) == (progress.sent_bytes, progress.received_bytes)
    assert np.array_equal(bytes_of(into.size, PEER), into)


def check_short_message() -> None:
    """Fewer bytes than agreed are an error where they arrive, and end no process."""
    session, into = Session(), np.zeros(100 if RANK == 0 else 10, np.uint8)
    session.start(bytes_of(10, RANK), into)
    failure = session.finish()
    assert failure == ("a message had 10 bytes instead of 100" if RANK == 0 else ""), failure


def check_long_message() -> None:
    """More bytes than agreed are MPI's error, which the plugin returns instead of ending the process."""
    session, into = Session(), np.zeros(10, np.uint8)
    session.start(bytes_of(10 if RANK == 0 else 100, RANK), into)
    failure = session.finish()
    assert failure.startswith("MPI_Irecv failed: ") == (RANK == 0), failure


def check_cancelled() -> None:
    """A receive that no peer serves can be taken back."""
    session, into = Session(), np.zeros(1 << 20, np.uint8)
    session.start(np.zeros(0, np.uint8), into)
    assert 1 == session.test()[1].pending
    session.plugin.cancel(session.session)
    failure = session.finish()
    assert failure == "", failure
    assert 0 == session.test()[1].received_bytes


def check_abandoned() -> None:
    """Check that the communicator's name shows transfers that are left to MPI."""
    session = Session()
    session.plugin.abandon(session.session)
    assert ABANDONED_NAME == session.communicator.Get_name()
    session.plugin.close(session.session)


def main() -> None:
    """Run every check, both ranks in step."""
    checks: tuple[Callable[[], None], ...] = (
        check_many_pieces,
        check_short_message,
        check_long_message,
        check_cancelled,
        check_abandoned,
    )
    for check in checks:
        check()
        MPI.COMM_WORLD.Barrier()
    say(f"rank {RANK}: all as it must be")


if __name__ == "__main__":
    main()
