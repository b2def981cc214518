# SPDX-License-Identifier: Apache-2.0
"""Daemons of MUNGE with sockets and keys of their own, which end with the test."""

import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.waiting import wait_until

DAEMON = shutil.which("munged", path="/usr/sbin:/usr/bin:/usr/local/sbin")
needs_munge = pytest.mark.skipif(DAEMON is None, reason="munged not found; `make system-packages` installs munge")


@contextmanager
def munge_folder() -> Iterator[Path]:
    """Make a folder that the daemon finds safe, and that other users can enter, as they enter /run/munge."""
    with tempfile.TemporaryDirectory(prefix="munge-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@contextmanager
def munge_daemon(folder: Path, name: str, key: bytes | None = None) -> Iterator[Path]:
    """Run a daemon and yield its socket.

    Args:
        folder: A folder of `munge_folder`.
        name: Name of the daemon's files in it.
        key: Secret that it shares with other daemons; a fresh one by default.
    """
    key_file, socket = folder / f"{name}.key", folder / f"{name}.socket"
    key_file.write_bytes(key or secrets.token_bytes(64))
    key_file.chmod(0o400)
    files = [f"--{kind}-file={folder / name}.{kind}" for kind in ("key", "pid", "log", "seed")]
    assert DAEMON is not None
    command = ["setpriv", "--pdeathsig", "KILL", DAEMON, "--foreground", f"--socket={socket}", *files]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as daemon:
        try:
            wait_until(lambda: socket.exists() or daemon.poll() is not None)
            assert daemon.poll() is None, daemon.stderr.read() if daemon.stderr else ""
            yield socket
        finally:
            daemon.kill()
