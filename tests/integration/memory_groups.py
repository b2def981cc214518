# SPDX-License-Identifier: Apache-2.0
"""Control groups with a memory limit, of version 1 or 2: the kernel kills a process in them instead of refusing."""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

MOUNT = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class MemoryGroup:
    """A control group.

    Attributes:
        folder: The folder of its files.
        counter: The file that counts its kills, as `oom_kill N`.
    """

    folder: Path
    counter: Path

    def kills(self) -> int:
        """Return the number of its processes that the kernel has killed for want of memory."""
        facts = dict(line.split() for line in self.counter.read_text(encoding="utf-8").splitlines())
        return int(facts["oom_kill"])

    def command(self, *command: str) -> list[str]:
        """Return the command line that runs a command in the group."""
        return ["sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', str(self.folder), *command]


@contextmanager
def memory_group(limit_bytes: int) -> Iterator[MemoryGroup]:
    """Make a control group; the test is reported as not run where that is not allowed."""
    name = f"ringtune-test-{uuid.uuid4().hex}"
    is_first = (MOUNT / "memory").is_dir()
    folder = MOUNT / "memory" / name if is_first else MOUNT / name
    limits = ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes") if is_first else ("memory.max",)
    try:
        folder.mkdir()
        for limit in limits:
            (folder / limit).write_text(str(limit_bytes), encoding="utf-8")
        if not is_first:
            (folder / "memory.swap.max").write_text("0", encoding="utf-8")
    except OSError as error:
        with suppress(OSError):
            folder.rmdir()
        pytest.skip(f"NOT RUN: no control group with a memory limit can be made here ({error.strerror}; needs root)")
    try:
        yield MemoryGroup(folder, folder / ("memory.oom_control" if is_first else "memory.events"))
    finally:
        with suppress(OSError):  # a process that is still ending keeps it
            folder.rmdir()


def be_the_first_victim(pid: int) -> None:
    """Have the kernel kill this process before others of its group."""
    Path(f"/proc/{pid}/oom_score_adj").write_text("1000", encoding="utf-8")


def enter(folder: str) -> None:
    """Move this process into a group."""
    Path(folder, "cgroup.procs").write_text(str(os.getpid()), encoding="utf-8")
