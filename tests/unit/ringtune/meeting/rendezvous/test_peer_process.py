# SPDX-License-Identifier: Apache-2.0
"""Only processes of the same effective user may connect."""

import os
import socket
import subprocess
import sys
from contextlib import closing

import pytest

from ringtune.meeting.rendezvous.address import Address, bound_address, listen
from ringtune.meeting.rendezvous.admission import acceptor_of_members
from ringtune.meeting.rendezvous.channel import Channel
from ringtune.meeting.rendezvous.peer_process import peer_process
from ringtune.meeting.rendezvous.proof import Membership
from ringtune.system.event_loop import EventLoop
from tests.waiting import wait_until

NOBODY = 65_534
OWN_SOCKETS = f"""
import os, socket
from ringtune.meeting.rendezvous.peer_process import peer_process
os.seteuid({NOBODY})
print(peer_process(socket.socketpair()[0]).is_own_users)
"""

CALL = """
import os, socket, sys
from ringtune.meeting.rendezvous.address import Address, connect
from ringtune.meeting.rendezvous.channel import Deadline, encode_frame
from ringtune.meeting.rendezvous.proof import PROTOCOL_VERSION, new_nonce
os.setresuid(int(sys.argv[1]), int(sys.argv[2]), 0)
with connect(Address.parse(sys.argv[3]), Deadline.after(60)) as connection:
    connection.settimeout(60)
    hello = {"protocol": PROTOCOL_VERSION, "purpose": "meeting", "generation": 0, "rank": 1, "nonce": new_nonce()}
    try:
        connection.sendall(encode_frame({"type": "hello", **hello}))
        print("heard" if connection.recv(1) else "dropped")
    except ConnectionError:
        print("dropped")
"""
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="a process with two users needs root")


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


@needs_root
def test_under_set_user_id_a_process_knows_its_own() -> None:
    """Its real user is another one, which the kernel does not report."""
    done = subprocess.run([sys.executable, "-c", OWN_SOCKETS], capture_output=True, text=True, check=True)

    assert "True" == done.stdout.strip()


@needs_root
@pytest.mark.parametrize(("real", "effective", "outcome"), [(NOBODY, 0, "heard"), (0, NOBODY, "dropped")])
def test_the_effective_user_is_let_in(real: int, effective: int, outcome: str) -> None:
    """Processes with two users, at an acceptor of root's: the real user neither helps nor harms."""
    with closing(EventLoop()) as loop:
        listener = listen(Address.fresh_unix())
        address = str(bound_address(listener))
        acceptor = acceptor_of_members(loop, listener, Membership(0, 0, b"k" * 32), ("meeting",), lambda _caller: None)
        command = [sys.executable, "-c", CALL, str(real), str(effective), address]

        with closing(acceptor), subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as caller:
            wait_until(lambda: loop.turn(0.05) or caller.poll() is not None)  # type: ignore[func-returns-value]
            output, _ = caller.communicate()

    assert outcome == output.strip()
