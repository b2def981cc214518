# SPDX-License-Identifier: Apache-2.0
"""Only processes of the same effective user may connect."""

import os
import socket
import subprocess
import sys

import pytest

from ringtune.meeting.rendezvous.channel import Channel
from ringtune.meeting.rendezvous.peer_process import peer_process

NOBODY = 65_534
OWN_SOCKETS = f"""
import os, socket
from ringtune.meeting.rendezvous.peer_process import peer_process
os.seteuid({NOBODY})
print(peer_process(socket.socketpair()[0]).is_own_users)
"""


def test_a_process_of_this_user_is_no_stranger() -> None:
    """Its process id is known, too; a connection over TCP has no user."""
    ours, theirs = socket.socketpair()
    with ours, theirs, socket.create_server(("127.0.0.1", 0)) as server:
        assert (os.getpid(), os.geteuid()) == tuple(peer_process(ours))
        assert not Channel(theirs).is_strangers
        with socket.create_connection(server.getsockname()) as remote:
            assert not Channel(remote).is_strangers


def test_a_process_of_another_user_is_a_stranger(monkeypatch: pytest.MonkeyPatch) -> None:
    """The peer's user is compared with this process's effective one."""
    ours, theirs = socket.socketpair()
    other = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: other)

    with ours, theirs:
        assert Channel(ours).is_strangers


@pytest.mark.skipif(os.geteuid() != 0, reason="a process with two users needs root")
def test_under_set_user_id_a_process_knows_its_own() -> None:
    """Its real user is another one, which the kernel does not report."""
    done = subprocess.run([sys.executable, "-c", OWN_SOCKETS], capture_output=True, text=True, check=True)

    assert "True" == done.stdout.strip()
