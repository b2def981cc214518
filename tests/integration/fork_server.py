# SPDX-License-Identifier: Apache-2.0
"""A process that has imported torch and ringtune and forks ranks from itself: a rank starts in milliseconds.

Run as `python -m tests.integration.fork_server DESCRIPTOR`; the descriptor is a socket of whole messages. An order is
one message: JSON with the fields of `Order`, and three descriptors: standard output, standard error, and a pipe that
takes the child's pid and, once it has ended, its wait status. The end of the socket ends the server and its children.

No engine and no thread exists before a fork. A child is a process as the interpreter would have started it, but for
its command line in /proc, the seed of its hashes, and what it finds imported.
"""

import ctypes
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import struct
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

# torch._dynamo is imported by the first torch optimizer of a process, the tuner's packages by rank 0 of a tuned job.
PRELOADED = ("torch.distributed", "torch._dynamo", "ringtune.torch", "ringtune.ddp", "ringtune.tuner.designers.gp")
MARKER = "TEST_JOB_MARKER"
MAX_ORDER_BYTES = 1 << 18
DESCRIPTORS_PER_ORDER = 3
STATUS = struct.Struct("i")
PR_SET_PDEATHSIG = 1
ENVIRONMENT_FIELDS = slice(47, 49)  # start and end of the block, among the fields of /proc/self/stat after the name


@dataclass(frozen=True)
class Order:
    """A child to be forked: the program's path, its arguments, its whole environment and its working directory."""

    program: str
    arguments: list[str]
    environ: dict[str, str]
    directory: str


@dataclass(frozen=True)
class Child:
    """A child that runs, and the pipe that takes its wait status."""

    pid: int
    status: int


class ForkServer:
    """Forks a child for each order and reports how it ended."""

    def __init__(self, orders: socket.socket) -> None:
        self._orders = orders
        self._poll = select.poll()
        self._poll.register(orders, select.POLLIN)
        self._children: dict[int, Child] = {}  # by pidfd

    def serve(self) -> Order | None:
        """Serve until the client has gone, then return None; in each child, return its order."""
        while True:
            for descriptor, _ in self._poll.poll():
                if descriptor != self._orders.fileno():
                    self._report(descriptor)
                    continue
                message, descriptors, _, _ = socket.recv_fds(self._orders, MAX_ORDER_BYTES, DESCRIPTORS_PER_ORDER)
                if not message:
                    self._kill_all()
                    return None
                if self._fork(*descriptors):
                    return Order(**json.loads(message))

    def _fork(self, stdout: int, stderr: int, status: int) -> bool:
        """Fork a child; returns whether this is the child."""
        server = os.getpid()
        pid = os.fork()
        if pid == 0:
            _die_with(server)
            os.setsid()
            os.dup2(stdout, 1)
            os.dup2(stderr, 2)
            self._close_all((stdout, stderr, status))
            return True
        os.write(status, STATUS.pack(pid))
        pidfd = os.pidfd_open(pid)
        self._children[pidfd] = Child(pid, status)
        self._poll.register(pidfd, select.POLLIN)
        os.close(stdout)
        os.close(stderr)
        return False

    def _report(self, pidfd: int) -> None:
        child = self._children.pop(pidfd)
        self._poll.unregister(pidfd)
        os.close(pidfd)
        _, status = os.waitpid(child.pid, 0)
        with suppress(BrokenPipeError):  # nobody asks any more
            os.write(child.status, STATUS.pack(status))
        os.close(child.status)

    def _kill_all(self) -> None:
        for child in self._children.values():
            os.kill(child.pid, signal.SIGKILL)

    def _close_all(self, others: Iterable[int]) -> None:
        self._orders.close()
        for pidfd, child in self._children.items():
            os.close(pidfd)
            os.close(child.status)
        for descriptor in others:
            os.close(descriptor)


def play(order: Order) -> None:
    """Become the ordered program."""
    os.chdir(order.directory)
    os.environ.clear()
    os.environ.update(order.environ)
    _show_marker(order.environ[MARKER])
    np.random.seed()  # noqa: NPY002  (a fresh process has a state of its own; `random` sees to that itself)
    sys.argv = [order.program, *order.arguments]
    sys.path[0] = str(Path(order.program).parent)
    runpy.run_path(order.program, run_name="__main__")


def _die_with(server: int) -> None:
    """Let the kernel kill this child when the server ends, as `ringtune run` has it for its ranks."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != server:
        os._exit(1)


def _show_marker(marker: str) -> None:
    """Put the marker into /proc/self/environ, which shows the memory that the server was started with."""
    fields = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    start, end = map(int, fields[ENVIRONMENT_FIELDS])
    name = f"{MARKER}=".encode()
    place = ctypes.string_at(start, end - start).index(name)
    ctypes.memmove(start + place + len(name), marker.encode(), len(marker))


def main() -> None:
    """Import the ranks' modules, then serve."""
    for name in PRELOADED:
        importlib.import_module(name)
    threads = len(list(Path("/proc/self/task").iterdir()))
    if threads != 1:
        sys.exit(f"the fork server has {threads} threads: one of {', '.join(PRELOADED)} starts them when imported")
    gc.collect()
    gc.freeze()  # a collection in a child would copy what all children share
    order = ForkServer(socket.socket(fileno=int(sys.argv[1]))).serve()
    if order is not None:
        play(order)


if __name__ == "__main__":
    main()
