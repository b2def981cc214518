# SPDX-License-Identifier: Apache-2.0
"""Process that listens on a TCP port of this host, as far as `/proc` lets this user see."""

from collections.abc import Iterator
from pathlib import Path

from ringtune.system.printable import shown_command

_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LISTENING = "0A"


def describe_holder(port: int) -> str:
    """Return ` by pid N (COMMAND)` for each process that listens on a port; empty where that cannot be seen."""
    targets = {f"socket:[{inode}]" for inode in _listening_inodes(port)}
    pids = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    holders = [pid for pid in pids if targets & set(_open_files(pid))] if targets else []
    return "".join(f" by pid {pid} ({_command(pid)})" for pid in sorted(holders))


def _listening_inodes(port: int) -> Iterator[str]:
    for table in _TABLES:
        for line in _text(table).splitlines()[1:]:
            fields = line.split()
            if len(fields) > 9 and fields[3] == _LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
                yield fields[9]


def _open_files(pid: int) -> Iterator[str]:
    try:
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            yield str(entry.readlink())
    except OSError:  # another user's, or gone meanwhile
        return


def _command(pid: int) -> str:
    return shown_command(_text(Path(f"/proc/{pid}/cmdline")).split("\0"))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
