# SPDX-License-Identifier: Apache-2.0
"""An interpreter that has imported torch and ringtune already: runs scripts and modules on forks of the fork server.

Run as `python preloaded_python.py ADDRESS NAME [-u] [-m MODULE | SCRIPT] [ARGUMENT…]`; the address is that of the fork
server's socket for strangers, the name is the program's `sys.executable`. This process stands for the program's: it
hands signals on, ends as the program has ended, and if it is killed, so is the program. Whatever else an interpreter
can be asked for, the real one does. It starts in no time, so it imports no package.
"""

import json
import os
import signal
import socket
import struct
import sys
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

STATUS = struct.Struct("i")  # fork_server has it too, and imports more
HANDED_ON = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)


def start(orders: socket.socket, order: dict[str, Any]) -> int:
    """Let the fork server start a program; returns a descriptor that yields its pid, and later its wait status."""
    read_end, write_end = os.pipe()
    message = {**order, "environ": dict(os.environ), "directory": str(Path.cwd())}
    socket.send_fds(orders, [json.dumps(message).encode()], [1, 2, write_end])
    os.close(write_end)
    return read_end


def order_of(words: list[str]) -> dict[str, Any] | None:
    """Return which program an interpreter's arguments name; None if it is no script and no module."""
    rest = [*words[1:]] if words[:1] == ["-u"] else [*words]
    if rest[:1] == ["-m"] and len(rest) > 1:
        return {"program": rest[1], "arguments": rest[2:], "is_module": True}
    if rest and rest[0].endswith(".py"):
        return {"program": str(Path(rest[0]).resolve()), "arguments": rest[1:], "is_module": False}
    return None


def main() -> None:
    """Start the program, hand signals on, and end as it ends."""
    address, name, *words = sys.argv[1:]
    order = order_of(words)
    if order is None:
        os.execv(sys.executable, [sys.executable, *words])
    signal.pthread_sigmask(signal.SIG_BLOCK, HANDED_ON)  # until there is somebody to hand them on to
    orders = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)  # open to the end: the server kills the program then
    orders.connect(address)
    status = start(orders, {**order, "executable": name})
    (pid,) = STATUS.unpack(os.read(status, STATUS.size))

    def hand_on(number: int, _frame: FrameType | None) -> None:
        with suppress(ProcessLookupError):  # it has ended, which is read below
            os.kill(pid, number)

    for number in HANDED_ON:
        signal.signal(number, hand_on)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDED_ON)
    code = os.waitstatus_to_exitcode(*STATUS.unpack(os.read(status, STATUS.size)))
    if code < 0:
        with suppress(OSError):  # SIGKILL has no other action
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


main()
