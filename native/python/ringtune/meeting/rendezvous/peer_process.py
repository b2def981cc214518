# SPDX-License-Identifier: Apache-2.0
"""The process at the other end of a unix socket, and the rule of admission: processes of the same user.

The kernel reports the *effective* user of the peer, as it was when it connected or began to listen. It is compared with
this process's effective user: under a set-user-id program the real one differs, and a rank would refuse its own peers.
"""

import os
import socket
import struct
from typing import NamedTuple

_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid


class PeerProcess(NamedTuple):
    """The peer of a unix socket.

    Attributes:
        pid: Its process id; 0 for a process of another pid namespace.
        uid: Its effective user.
    """

    pid: int
    uid: int

    @property
    def is_own_users(self) -> bool:
        """True if it is a process of this process's user."""
        return is_same_user(self.uid)


def is_same_user(uid: int) -> bool:
    """Return whether a user is this process's effective one."""
    return uid == os.geteuid()


def peer_process(connection: socket.socket) -> PeerProcess:
    """Return the process at the other end of a unix socket.

    Raises:
        OSError: If the socket is not connected.
    """
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(credentials)
    return PeerProcess(pid, uid)
