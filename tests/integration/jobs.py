# SPDX-License-Identifier: Apache-2.0
"""Runs programs as real jobs, each with a hard deadline, and finds whatever a job has left behind.

`run_job(ranks(2, "optimizer"))` forks its ranks from a process that has imported torch: the way for programs that need
ranks. `launched(2, "optimizer")` is the command line of the real launcher, which starts interpreters: for tests of the
launcher, of signals, of the environment, of memory, and for programs without torch, which start as fast that way.
"""

import atexit
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Generic, TypeVar

from tests.integration.fork_server import MARKER, brand_of
from tests.integration.forked_ranks import Forked, ForkedProcess, ForkServerClient, Process, RankGroup

T = TypeVar("T")
P = TypeVar("P", bound=Process)

REPOSITORY = Path(__file__).resolve().parents[2]
PROGRAMS = Path(__file__).resolve().parent / "programs"
DEADLINE_S = 300.0
SETTLE_S = 60.0
SHARED_MEMORY = Path("/dev/shm")
_BRAND_LINE = "Max realtime timeout "  # in /proc/PID/limits


@dataclass(frozen=True)
class Finished:
    """The end of a job: its exit code, its output, and its duration."""

    code: int
    stdout: str
    stderr: str
    seconds: float

    @property
    def text(self) -> str:
        """Both outputs, for failure messages."""
        return f"exit code {self.code} after {self.seconds:.1f} s\n--- stdout\n{self.stdout}\n--- stderr\n{self.stderr}"


def program(name: str, *arguments: str) -> list[str]:
    """Return the command that runs one of the programs beside this file."""
    return [sys.executable, str(PROGRAMS / f"{name}.py"), *arguments]


def ringtune(*arguments: str) -> list[str]:
    """Return the command line of the `ringtune` command."""
    return [sys.executable, "-m", "ringtune.cli", *arguments]


@dataclass(frozen=True)
class Ranks:
    """One of the programs on several ranks, forked and not launched."""

    count: int
    command: Forked


def ranks(count: int, name: str, *arguments: str) -> Ranks:
    """Return one of the programs on several ranks, for `run_job`."""
    return Ranks(count, forked(name, *arguments))


def forked(name: str, *arguments: str) -> Forked:
    """Return one of the programs, to be forked as `ranks` are, for a test that gives its processes their places."""
    return Forked(PROGRAMS / f"{name}.py", arguments)


def launched(count: int, name: str, *arguments: str) -> list[str]:
    """Return the command line of the launcher that runs one of the programs on several ranks."""
    return ringtune("run", "-np", str(count), *program(name, *arguments))


def launched_by(name: str, command: Sequence[str]) -> list[str]:
    """Return the command line with one of the programs in the place of the `ringtune` command."""
    assert ["-m", "ringtune.cli"] == list(command[1:3])
    return [*program(name), *command[3:]]


@dataclass
class JobOf(Generic[P]):
    """A job in flight, in a session of its own; its marker finds all processes that it has started."""

    process: P
    marker: str
    start_s: float

    def wait(self, deadline_s: float = DEADLINE_S) -> Finished:
        """Wait for the end; a job that runs past the deadline is killed, which fails the test with its output."""
        try:
            stdout, stderr = self.process.communicate(timeout=deadline_s)
        except subprocess.TimeoutExpired:
            self.kill()
            stdout, stderr = self.process.communicate()
            message = f"the job ran past its deadline of {deadline_s:.0f} s\n{stdout}\n{stderr}"
            raise AssertionError(message) from None
        assert self.process.returncode is not None
        return Finished(self.process.returncode, stdout, stderr, time.monotonic() - self.start_s)

    def processes(self) -> list[int]:
        """Return the process ids of all that carries the job's marker or its brand."""
        line = f"{_BRAND_LINE}{brand_of(self.marker)} ".encode()
        return [
            pid
            for pid in _process_ids()
            if self.marker.encode() in _file_of(pid, "environ") or line in b" ".join(_file_of(pid, "limits").split())
        ]

    def kill(self) -> None:
        """Kill the job and everything it has started."""
        self.process.kill()
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


Job = JobOf[subprocess.Popen[str]]


def clean_environment(changes: Mapping[str, str], marker: str) -> dict[str, str]:
    """Return the environment for a job: of a launcher's and our variables only those that the test sets."""
    foreign = ("RINGTUNE_", "AUTOTUNE", "HOROVOD_", "TORCHELASTIC", "OMP_NUM_THREADS", "WORLD_SIZE", "RANK")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    path = os.pathsep.join(filter(None, [str(REPOSITORY), inherited.get("PYTHONPATH", "")]))
    ours = {
        "OMP_NUM_THREADS": "1",
        "RINGTUNE_ALGORITHM_TABLE": "default",
        "AUTOTUNE_CACHE": "0",
        "AUTOTUNE_LOCK": "0",
        "PYTHONPATH": path,
        MARKER: marker,
    }
    return {**inherited, **ours, **changes}


@contextmanager
def started(command: Sequence[str], environ: Mapping[str, str] | None = None) -> Iterator[Job]:
    """Run a command as a job; afterwards no process, socket or shared-memory file of it may be left."""
    with _checked(lambda environment: _opened(command, environment), environ) as job:
        yield job


@contextmanager
def started_by_fork(command: Forked, environ: Mapping[str, str] | None = None) -> Iterator[JobOf[ForkedProcess]]:
    """Run one of the programs as `started` does, but fork it."""
    with _checked(lambda environment: fork_server().start(command, environment), environ) as job:
        yield job


@contextmanager
def started_ranks(group: Ranks, environ: Mapping[str, str] | None = None) -> Iterator[JobOf[RankGroup]]:
    """Run one of the programs on ranks as `started` does, but fork them."""
    with _checked(lambda all_: fork_server().start_ranks(group.count, group.command, all_), environ) as job:
        yield job


def run_job(
    command: Sequence[str] | Ranks, environ: Mapping[str, str] | None = None, *, deadline_s: float = DEADLINE_S
) -> Finished:
    """Run ranks or a command as a job to its end; see `started` and `JobOf.wait`."""
    if isinstance(command, Ranks):
        with started_ranks(command, environ) as forked_job:
            return forked_job.wait(deadline_s)
    with started(command, environ) as job:
        return job.wait(deadline_s)


def preloaded_python(path: Path) -> dict[str, str]:
    """Make a program that stands for `python` where programs that import torch are run; see `preloaded_python.py`.

    Args:
        path: Place of the program, which is written; its name should be `python`.

    Returns:
        Variables that its callers need: a job's marker.
    """
    write_command(path, client_words(fork_server(), path))
    return {MARKER: uuid.uuid4().hex}


def client_words(server: ForkServerClient, python: Path) -> list[str]:
    """Return the words before a script, `-m` or an option; the program finds `python` as its interpreter."""
    client = Path(__file__).with_name("preloaded_python.py")
    return [sys.executable, "-I", "-S", str(client), server.address, str(python)]


def write_command(path: Path, words: Sequence[str]) -> None:
    """Write a program that calls a command with its own arguments after the words."""
    path.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n', encoding="utf-8")
    path.chmod(0o755)


def torchrun(python: Path, *arguments: str) -> list[str]:
    """Return the command line of torchrun; a preloaded interpreter, which is made here, runs it and its two ranks."""
    preloaded_python(python)
    return [str(python), "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", *arguments]


@cache
def fork_server() -> ForkServerClient:
    """Return the server that forks this test process's jobs; the first call starts it."""
    server = ForkServerClient(clean_environment({}, "0" * len(uuid.uuid4().hex)))
    atexit.register(server.close)
    return server


@contextmanager
def _checked(start: Callable[[Mapping[str, str]], P], environ: Mapping[str, str] | None) -> Iterator[JobOf[P]]:
    """Start a job in a given environment; afterwards no trace of it may be left."""
    marker = uuid.uuid4().hex
    sockets, files = own_sockets(), shared_memory_files()
    job = JobOf(start(clean_environment(environ or {}, marker)), marker, time.monotonic())
    try:
        yield job
        left_processes = settled(job.processes)
        left_sockets = settled(lambda: sorted(own_sockets() - sockets))
        assert not left_processes, f"the job has left processes: {', '.join(map(_described, left_processes))}"
        assert not left_sockets, f"this process or its fork server has left sockets: {', '.join(left_sockets)}"
        assert [] == sorted(shared_memory_files() - files)
    finally:
        job.kill()
        job.process.communicate()


def _opened(command: Sequence[str], environ: Mapping[str, str]) -> subprocess.Popen[str]:
    prlimit = shutil.which("prlimit")
    assert prlimit is not None, "prlimit not found; it is a part of util-linux"
    return subprocess.Popen(
        [prlimit, f"--rttime={brand_of(environ[MARKER])}:", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environ,
        start_new_session=True,
    )


def own_sockets() -> set[str]:
    """Return the names of ringtune's abstract sockets that this process or its fork server has open.

    A job's own sockets end with its processes; those of other jobs on the machine are nobody's business here.
    """
    lines = Path("/proc/net/unix").read_text(encoding="utf-8", errors="replace").splitlines()
    named = (line.split() for line in lines if "@ringtune" in line)
    names = {f"socket:[{fields[-2]}]": fields[-1] for fields in named}
    pids = [os.getpid(), *([fork_server().pid] if fork_server.cache_info().currsize else [])]
    return {names[link] for pid in pids for link in _links_of(pid) if link in names}


def shared_memory_files() -> set[str]:
    """Return the names of ringtune's files in /dev/shm."""
    return {path.name for path in SHARED_MEMORY.iterdir() if "ringtune" in path.name}


def wait_for_line(path: Path, deadline_s: float = DEADLINE_S) -> str:
    """Wait until a program has written a whole line into a file, and return it."""
    end_s = time.monotonic() + deadline_s
    while time.monotonic() < end_s:
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        if text.endswith("\n"):
            return text.strip()
        time.sleep(0.02)
    raise AssertionError(f"nothing was written into {path} within {deadline_s:.0f} s")


def settled(find: Callable[[], list[T]]) -> list[T]:
    """Return the findings once there are none or some seconds have passed: dying takes the kernel a moment."""
    end_s = time.monotonic() + SETTLE_S
    while True:
        found = find()
        if not found or time.monotonic() > end_s:
            return found
        time.sleep(0.05)


def _links_of(pid: int) -> list[str]:
    """Return a process's open files, as the kernel names them."""
    links = []
    with suppress(FileNotFoundError):  # it has ended
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(FileNotFoundError):  # closed meanwhile, as the listing itself is
                links.append(str(entry.readlink()))
    return links


def _process_ids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _described(pid: int) -> str:
    return f"{pid} ({_file_of(pid, 'cmdline').replace(bytes(1), b' ').decode(errors='replace').strip()})"


def _file_of(pid: int, name: str) -> bytes:
    """Return a file of a living process's in /proc; empty for one that has ended."""
    try:
        if Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "Z":
            return b""
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""
