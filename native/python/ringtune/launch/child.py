# SPDX-License-Identifier: Apache-2.0
"""A rank before its command runs: ties itself to the launcher's life, takes the job key, becomes the user's command.

Started as `python -I -S child.py LAUNCHER_PID COMMAND...` in a session of its own, with SIGINT blocked, and with a pipe
as standard input that carries the job key as one line. The key is on no command line. Uses the standard library alone.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
EXIT_NOT_FOUND = 127
EXIT_CANNOT_START = 126
_MAX_KEY_BYTES = 4096


def die_with_parent(parent_pid: int) -> bool:
    """Ask the kernel to kill this process when its parent ends, however that happens.

    Args:
        parent_pid: Process id that the parent must have.

    Returns:
        Whether the parent is still alive; if not, nobody would send the signal any more.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    return os.getppid() == parent_pid


def read_line(descriptor: int) -> str:
    """Return the first line of a pipe without its end, reading not a byte more."""
    line = bytearray()
    while len(line) < _MAX_KEY_BYTES:
        byte = os.read(descriptor, 1)
        if byte in {b"", b"\n"}:
            break
        line += byte
    return line.decode("ascii", "replace")


def heed_interrupt() -> None:
    """Let Ctrl-C, blocked since the start, end this process without a word, and the command as it wishes."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not ignored, as under nohup
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def main(arguments: list[str]) -> int:
    """Become the command; return an exit code only if that is not possible."""
    parent_pid, command = int(arguments[0]), arguments[1:]
    if not die_with_parent(parent_pid):
        return EXIT_CANNOT_START
    os.environ["RINGTUNE_JOB_KEY"] = read_line(0)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    heed_interrupt()
    try:
        os.execvp(command[0], command)  # noqa: S606  (that is what was asked for; no shell is meant)
    except OSError as error:
        os.write(2, f"ringtune run: cannot start {command[0]!r}: {error}\n".encode("utf-8", "backslashreplace"))
    return EXIT_NOT_FOUND


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
