# SPDX-License-Identifier: Apache-2.0
"""A command tied to the process that starts it: whichever process was killed, it does not outlive its parent.

Run by `child_process` as `python -I -S tied_program.py PARENT_PID alone|all COMMAND...`, with SIGINT blocked.
`alone` becomes the command, which the kernel kills with its parent. `all` stays, and keeps the command: launchers such
as mpirun put their ranks into process groups of their own, where a signal to the command's group does not reach them.
So the keeper is the *subreaper* of all that descends from it: an orphan becomes its child, and it ends when none is
left. It ends early when it is asked (SIGTERM) or when its parent dies: the command may clear up after SIGTERM, then all
are killed. Shared memory of theirs that outlives this (MPICH's does) is removed.

Uses the standard library alone, and Linux.
"""

import ctypes
import os
import signal
import sys
import time

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
ALONE, ALL = "alone", "all"
GRACE_S = 3.0
"""Seconds between SIGTERM and SIGKILL of a kept command: mpirun ends its ranks and removes its files in less."""
EXIT_NOT_FOUND = 127
EXIT_CANNOT_START = 126
SIGNAL_BASE = 128
SHARED_MEMORY = "/dev/shm/"  # noqa: S108  (looked at, not written)
_POLL_S = 0.05
_WATCHED = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def main(arguments: list[str]) -> int:
    """Run the command; return its exit code, 128 + the signal if it was killed, or why it cannot be started."""
    parent_pid, tie, command = int(arguments[0]), arguments[1], arguments[2:]
    return _become(command, parent_pid) if tie == ALONE else _keep(command, parent_pid)


def die_with_parent(parent_pid: int, number: int = signal.SIGKILL) -> bool:
    """Ask the kernel to signal this process when its parent ends, however that happens.

    Args:
        parent_pid: Process id that the parent must have.
        number: The signal.

    Returns:
        Whether the parent is still alive; if not, the signal would never come.
    """
    _control(PR_SET_PDEATHSIG, number)
    return os.getppid() == parent_pid


def _become(command: list[str], parent_pid: int) -> int:
    """Become the command; return an exit code only if that is not possible."""
    if not die_with_parent(parent_pid):
        return EXIT_CANNOT_START
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not ignored, as under nohup
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # ends this process without a word until here
    try:
        os.execvp(command[0], command)  # noqa: S606  (that is what was asked for; no shell is meant)
    except OSError as error:
        _refuse("ringtune run", command[0], error)
    return EXIT_NOT_FOUND


def _keep(command: list[str], parent_pid: int) -> int:
    """Run the command to its end, and end all that it has started."""
    _control(PR_SET_CHILD_SUBREAPER, 1)
    signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
    if not die_with_parent(parent_pid, signal.SIGTERM):
        return EXIT_CANNOT_START
    earlier = _segments()
    code, names = _wait(_start(command))
    _end_all()
    for name in names - earlier:
        _remove_segment(name)
    return code


def _start(command: list[str]) -> int:
    """Start the command in a process group of its own, with no signal blocked; return its process id."""
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setpgid(0, 0)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.execvp(command[0], command)  # noqa: S606  (that is what was asked for; no shell is meant)
    except OSError as error:
        _refuse("ringtune tune", command[0], error)
        os._exit(EXIT_NOT_FOUND if isinstance(error, FileNotFoundError) else EXIT_CANNOT_START)


def _wait(pid: int) -> tuple[int, set[str]]:
    """Wait for the command; pass a request to end on, and kill everything after the grace.

    Returns:
        The exit code, and the names of the shared memory that was in use at a request.
    """
    kill_at_s = float("inf")
    names: set[str] = set()
    while True:
        code = _reaped(pid)
        if code is not None:
            return code, names
        signal_info = signal.sigtimedwait(_WATCHED, _POLL_S if kill_at_s < float("inf") else 1.0)
        is_request = signal_info is not None and signal_info.si_signo != signal.SIGCHLD
        if is_request and kill_at_s == float("inf"):
            kill_at_s = time.monotonic() + GRACE_S
            names = _mapped_segments()
            _signal_group(pid, signal.SIGTERM)
            _signal_group(pid, signal.SIGCONT)  # a stopped process would not see the first without the second
        if time.monotonic() >= kill_at_s:
            _kill_descendants()


def _reaped(pid: int) -> int | None:
    """Reap all that has ended; return the command's exit code if it is among them."""
    code = None
    while True:
        try:
            ended, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return code
        if ended == 0:
            return code
        if ended == pid:
            exit_code = os.waitstatus_to_exitcode(status)
            code = exit_code if exit_code >= 0 else SIGNAL_BASE - exit_code


def _end_all() -> None:
    """Kill the processes that the command has left behind, and wait for them: they become this one's children."""
    while True:
        _kill_descendants()
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        signal.sigtimedwait((signal.SIGCHLD,), _POLL_S)


def _kill_descendants() -> None:
    for pid in _descendants():
        _signal(pid, signal.SIGKILL)


def _segments() -> set[str]:
    """Return the names of the files in shared memory, none where there is none."""
    try:
        return set(os.listdir(SHARED_MEMORY))  # noqa: PTH208  (pathlib is slow to import, and this starts with every rank)
    except OSError:
        return set()


def _mapped_segments() -> set[str]:
    """Return the names of the files in shared memory that processes of the command have mapped."""
    names: set[str] = set()
    for pid in _descendants():
        try:
            with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as file:  # noqa: PTH123  (as above)
                paths = [line.rstrip("\n").split(" ", 5)[-1].strip() for line in file]
        except OSError:  # it has just ended
            continue
        names.update(path.removeprefix(SHARED_MEMORY) for path in paths if path.startswith(SHARED_MEMORY))
    return names


def _remove_segment(name: str) -> None:
    """Remove shared memory of a command that was ended, and that has not removed it itself."""
    try:
        os.unlink(SHARED_MEMORY + name)  # noqa: PTH108  (as above)
    except OSError:  # most have gone with the command
        return


def _descendants() -> list[int]:
    """Return the processes that descend from this one."""
    children: dict[int, list[int]] = {}
    for pid, parent in _parents():
        children.setdefault(parent, []).append(pid)
    found: list[int] = []
    waiting = list(children.get(os.getpid(), ()))
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        waiting += children.get(pid, ())
    return found


def _parents() -> list[tuple[int, int]]:
    """Return (process, parent) of all processes."""
    found = []
    for name in os.listdir("/proc"):  # noqa: PTH208  (as above)
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123  (as above)
                    fields = file.read().rpartition(b")")[2].split()
            except OSError:  # it has just ended
                continue
            found.append((int(name), int(fields[1])))
    return found


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def _signal_group(pid: int, number: int) -> None:
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        return


def _control(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}) failed")


def _refuse(name: str, program: str, error: OSError) -> None:
    os.write(2, f"{name}: cannot start {program!r}: {error.strerror}\n".encode("utf-8", "backslashreplace"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
