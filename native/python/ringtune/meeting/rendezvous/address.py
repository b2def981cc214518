# SPDX-License-Identifier: Apache-2.0
"""Address of a rank, of a launcher's address book or of a rendezvous server.

Forms: `unix:@NAME`, `tcp://HOST:PORT`, `book://HOST:PORT`, `join://HOST:PORT`.

An abstract unix socket leaves no file and is reached from its own host alone. A TCP socket is bound to one interface,
the named one.
"""

import errno
import os
import re
import secrets
import socket
import time
from dataclasses import dataclass
from typing import Any

from ringtune.errors import ConfigError
from ringtune.system.event_loop import is_writable

from .channel import Deadline
from .port_holder import describe_holder

ALLOWED = (
    "unix:@NAME with up to 90 letters, digits, '.', '_' and '-'; tcp://HOST:PORT, an address of rank 0's host and a "
    "free port of it; book://HOST:PORT, a launcher's address book; or join://HOST:PORT, a rendezvous server"
)
RESOLVE_AGAIN_S = (
    0.5  # interval between two questions for a name; the answer "unknown" is cached by resolvers for longer
)
LOOPBACK = "127.0.0.1"
_BACKLOG = 65_535  # the kernel cuts it to net.core.somaxconn; a SYN over it is repeated only after a second
_UNIX = re.compile(r"unix:@([A-Za-z0-9._-]{1,90})")
_HOST_AND_PORT = re.compile(r"(tcp|book|join)://(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._-]{1,253}):([0-9]{1,5})")


@dataclass(frozen=True)
class Address:
    """An address of any scheme.

    Attributes:
        scheme: `unix`, `tcp`, `book` or `join`.
        host: A host's name or number; for `unix` the socket's name, without the leading NUL.
        port: 0 for `unix`, and for "any" where it is listened on.
    """

    scheme: str
    host: str
    port: int = 0

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Return the address that a text names; ValueError where it names none."""
        if match := _UNIX.fullmatch(text):
            return cls("unix", match[1])
        match = _HOST_AND_PORT.fullmatch(text)
        if match is None or not 1 <= int(match[3]) <= 65_535:
            raise ValueError(text)
        return cls(match[1], match[2].strip("[]"), int(match[3]))

    @classmethod
    def fresh_unix(cls) -> "Address":
        """Return a name of an abstract socket that cannot be guessed."""
        return cls("unix", f"ringtune-{secrets.token_hex(16)}")

    def __str__(self) -> str:
        if self.scheme == "unix":
            return f"unix:@{self.host}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


def listen(address: Address, naming: Deadline | None = None) -> socket.socket:
    """Return a non-blocking socket that listens on the address, and on no other interface.

    Args:
        address: An address of this host.
        naming: Until when an unknown name is asked for again: a cluster's name service learns the name of a new
            container while it is starting. None asks once.

    Raises:
        ConfigError: If that is not possible; names the address, and the process that has it where the kernel shows it.
    """
    listener: socket.socket | None = None
    try:
        family, target = _resolved_in_time(address, naming)
        listener = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        if family != socket.AF_UNIX:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # closed connections linger on the port
        listener.bind(target)
        listener.listen(_BACKLOG)
    except OSError as error:
        if listener is not None:
            listener.close()
        raise ConfigError(f"cannot listen on {address}: {_reason(address, error)}") from error
    listener.setblocking(False)
    return listener


def bound_address(listener: socket.socket) -> Address:
    """Return the address that others connect to."""
    name: Any = listener.getsockname()
    if listener.family == socket.AF_UNIX:
        return Address("unix", name.lstrip(b"\0").decode("ascii"))
    return Address("tcp", name[0], name[1])


def connect(address: Address, deadline: Deadline) -> socket.socket:
    """Return a non-blocking connection to the address.

    Raises:
        OSError: If no process listens there, or none answered in time.
    """
    family, target = _resolved(address)
    connection = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
    try:
        code = connection.connect_ex(target)
        if code == errno.EINPROGRESS:
            if not is_writable(connection, deadline.remaining_s()):
                raise TimeoutError(errno.ETIMEDOUT, "no answer")
            code = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        _check_code(code)
        if family != socket.AF_UNIX:
            _check_and_hasten(connection)
    except OSError:
        connection.close()
        raise
    return connection


def _check_code(code: int) -> None:
    if code != 0:
        raise OSError(code, os.strerror(code))


def _check_and_hasten(connection: socket.socket) -> None:
    if connection.getsockname() == connection.getpeername():
        # A port out of the kernel's own range on which nobody listens can be given to the very socket that calls it.
        raise ConnectionRefusedError(errno.ECONNREFUSED, "connected to itself")
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _resolved_in_time(address: Address, deadline: Deadline | None) -> tuple[socket.AddressFamily, Any]:
    while True:
        try:
            return _resolved(address)
        except socket.gaierror:
            if deadline is None or deadline.has_passed():
                raise
        time.sleep(min(RESOLVE_AGAIN_S, deadline.remaining_s()))


def _resolved(address: Address) -> tuple[socket.AddressFamily, Any]:
    if address.scheme == "unix":
        return socket.AF_UNIX, f"\0{address.host}"
    family, _, _, _, target = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0]
    return family, target


def _reason(address: Address, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE and address.scheme == "unix":
        return "another process has it; is rank 0 started twice? Otherwise choose another name"
    if error.errno == errno.EADDRINUSE:
        return f"the port is in use{describe_holder(address.port)}; choose another port, or end who has it"
    if error.errno == errno.EADDRNOTAVAIL:
        return "no interface of this host has that address; rank 0 must run where its address says"
    return str(error)
