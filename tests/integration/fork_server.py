# SPDX-License-Identifier: Apache-2.0
"""A process that has imported a framework and ringtune and forks ranks from itself: a rank starts in milliseconds.

The framework is the one of the environment: torch, or TensorFlow in the environment of its own. Named modules are
imported in its place, for programs that need others: those of the service.

Run as `python -m tests.integration.fork_server ORDERS STRANGERS [MODULE…]`; the first two are descriptors of sockets of
whole messages. An order is one message: JSON with the fields of `Order`, and three descriptors: standard output,
standard error, and a pipe that takes the child's pid and, once it has ended, its wait status. ORDERS is connected, and
its end ends the server and its children. STRANGERS listens, and takes an order from each connection, whose end ends the
child: those of `preloaded_python`.

No engine and no thread exists before a fork. A child is a process as the interpreter would have started it, but for its
command line in /proc, the seed of its hashes, modules already imported, and the teardown of modules at its end.
"""

import atexit
import ctypes
import gc
import importlib
import json
import os
import resource
import runpy
import select
import signal
import socket
import struct
import sys
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

import numpy as np

from ringtune.session.session import SESSION

# torch._dynamo is imported by the first torch optimizer of a process, the tuner's packages by rank 0 of a tuned job.
PRELOADED = {
    "torch": (
        "torch.distributed",
        "torch._dynamo",
        "ringtune.torch",
        "ringtune.ddp",
        "ringtune.fsdp",
        "ringtune.tuner.gp.process",
        "ringtune.tuner.gp.acquisition",
        "ringtune.tuner.designers.gp",
    ),
    "tensorflow": ("ringtune.tensorflow", "ringtune.keras", "ringtune.tuner.designers.gp"),
}
"""Modules to import, by the framework that must be installed for them."""
MARKER = "TEST_JOB_MARKER"
MAX_ORDER_BYTES = 1 << 18
DESCRIPTORS_PER_ORDER = 3
STATUS = struct.Struct("i")
PR_SET_PDEATHSIG = 1
ENVIRONMENT_FIELDS = slice(47, 49)  # start and end of the block, among the fields of /proc/self/stat after the name


def brand_of(marker: str) -> int:
    """Return the limit on realtime CPU time, in microseconds, that all processes of a job inherit.

    A process that clears its environment, or begins a session of its own, keeps the limit, which is never reached: it
    is thousands of years, and counts with realtime priority only.
    """
    return (1 << 59) | int(marker[:14], 16)


@dataclass(frozen=True)
class Order:
    """A child to be forked.

    Attributes:
        program: Path of a script, or name of a module.
        arguments: Arguments of the program.
        environ: The whole environment.
        directory: The working directory.
        is_module: Whether the program is a module.
        executable: The interpreter that the program believes to run it; None: this one.
    """

    program: str
    arguments: list[str]
    environ: dict[str, str]
    directory: str
    is_module: bool = False
    executable: str | None = None


@dataclass(frozen=True)
class Child:
    """A child that runs, the pipe that takes its wait status, and the connection of the stranger that ordered it."""

    pid: int
    status: int
    stranger: socket.socket | None


class ForkServer:
    """Forks a child for each order and reports how it ended."""

    def __init__(self, orders: socket.socket, strangers: socket.socket) -> None:
        self._orders = orders
        self._strangers = strangers
        self._poll = select.poll()
        self._poll.register(orders, select.POLLIN)
        self._poll.register(strangers, select.POLLIN)
        self._children: dict[int, Child] = {}  # by pidfd

    def serve(self) -> Order | None:
        """Serve until the client has gone, then return None; in each child, return its order."""
        while True:
            # One event a turn: handling it may close descriptors, whose numbers the next one would then be for.
            (descriptor, _), *_ = self._poll.poll()
            if descriptor in self._children:
                self._report(descriptor)
            elif descriptor == self._orders.fileno():
                message, descriptors = _message(self._orders)
                if not message:
                    self._kill_all()
                    return None
                if self._fork(descriptors):
                    return Order(**json.loads(message))
            elif descriptor == self._strangers.fileno():
                stranger, _ = self._strangers.accept()
                message, descriptors = _message(stranger)
                if message and self._fork(descriptors, stranger):
                    return Order(**json.loads(message))
            else:
                self._kill_child_of(descriptor)

    def _fork(self, descriptors: Sequence[int], stranger: socket.socket | None = None) -> bool:
        """Fork a child; returns whether this is the child."""
        stdout, stderr, status = descriptors
        server = os.getpid()
        pid = os.fork()
        if pid == 0:
            _die_with(server)
            os.setsid()
            os.dup2(stdout, 1)
            os.dup2(stderr, 2)
            if stranger is not None:
                stranger.close()
            self._close_all((stdout, stderr, status))
            return True
        os.write(status, STATUS.pack(pid))
        pidfd = os.pidfd_open(pid)
        self._children[pidfd] = Child(pid, status, stranger)
        self._poll.register(pidfd, select.POLLIN)
        if stranger is not None:
            self._poll.register(stranger, 0)  # its end is told all the same
        os.close(stdout)
        os.close(stderr)
        return False

    def _kill_child_of(self, stranger: int) -> None:
        """Kill the child of a stranger that has ended."""
        for child in self._children.values():
            if child.stranger is not None and child.stranger.fileno() == stranger:
                self._poll.unregister(stranger)
                os.kill(child.pid, signal.SIGKILL)

    def _report(self, pidfd: int) -> None:
        child = self._children.pop(pidfd)
        self._poll.unregister(pidfd)
        os.close(pidfd)
        if child.stranger is not None:
            with suppress(KeyError):  # the stranger ended first
                self._poll.unregister(child.stranger)
            child.stranger.close()
        _, status = os.waitpid(child.pid, 0)
        with suppress(BrokenPipeError):  # nobody asks any more
            os.write(child.status, STATUS.pack(status))
        os.close(child.status)

    def _kill_all(self) -> None:
        for child in self._children.values():
            os.kill(child.pid, signal.SIGKILL)

    def _close_all(self, others: Iterable[int]) -> None:
        self._orders.close()
        self._strangers.close()
        for pidfd, child in self._children.items():
            os.close(pidfd)
            os.close(child.status)
            if child.stranger is not None:
                child.stranger.close()
        for descriptor in others:
            os.close(descriptor)


def _message(orders: socket.socket) -> tuple[bytes, list[int]]:
    """Receive an order, with its descriptors; an empty one at the end."""
    message, descriptors, _, _ = socket.recv_fds(orders, MAX_ORDER_BYTES, DESCRIPTORS_PER_ORDER)
    return message, descriptors


def play(order: Order) -> None:
    """Become the ordered program."""
    os.chdir(order.directory)
    os.environ.clear()
    os.environ.update(order.environ)
    _show_marker(order.environ[MARKER])
    _, hard = resource.getrlimit(resource.RLIMIT_RTTIME)
    resource.setrlimit(resource.RLIMIT_RTTIME, (brand_of(order.environ[MARKER]), hard))
    np.random.seed()  # noqa: NPY002  (a fresh process has a state of its own; `random` sees to that itself)
    sys.argv = [order.program, *order.arguments]
    sys.executable = order.executable or sys.executable
    if order.is_module:
        sys.path[0] = order.directory
        runpy.run_module(order.program, run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = str(Path(order.program).parent)
        runpy.run_path(order.program, run_name="__main__")


def run_to_its_end(order: Order) -> NoReturn:
    """Become the ordered program, and end as the interpreter does, but for the teardown of modules.

    Teardown touches every object of the modules that all children share, and so copies them: a fifth of a second.
    Threads are joined, exit functions run, and the program's own objects are collected. Launched ranks are torn down.
    """
    code = 0
    try:
        play(order)
    except SystemExit as end:
        code = _exit_code(end)
    except Exception as error:  # noqa: BLE001  (whatever the program has left unhandled)
        sys.excepthook(type(error), error, error.__traceback__)
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]  # as the interpreter itself
    atexit._run_exitfuncs()
    gc.collect()
    sys.stdout.flush()
    sys.stderr.flush()
    if SESSION.rendezvous is not None:  # a handler of the C library tells the job the exit code
        ctypes.CDLL(None).exit(code & 0xFF)
    os._exit(code & 0xFF)


def _exit_code(end: SystemExit) -> int:
    if end.code is None or isinstance(end.code, int):
        return end.code or 0
    sys.stderr.write(f"{end.code}\n")
    return 1


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
    """Import the named modules, or else those of the ranks; then serve."""
    of_ranks = [name for framework, names in PRELOADED.items() if find_spec(framework) for name in names]
    preloaded = sys.argv[3:] or of_ranks
    gc.disable()  # modules stay: looking through them while they come takes a tenth of the imports' time
    for name in preloaded:
        importlib.import_module(name)
    threads = len(list(Path("/proc/self/task").iterdir()))
    if threads != 1:
        sys.exit(f"the fork server has {threads} threads: one of {', '.join(preloaded)} starts them when imported")
    gc.enable()
    gc.collect()
    gc.freeze()  # a collection in a child would copy what all children share
    orders, strangers = (socket.socket(fileno=int(descriptor)) for descriptor in sys.argv[1:3])
    order = ForkServer(orders, strangers).serve()
    if order is not None:
        run_to_its_end(order)


if __name__ == "__main__":
    main()
