# SPDX-License-Identifier: Apache-2.0
"""TLS on the TCP connections of a job: by the job's key, or by certificates; the engine's code has OpenSSL.

Knows keys and modes, and not the messages that the connections carry.
"""

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, TypeAlias

from ringtune.errors import ConfigError, PeerLostError

if TYPE_CHECKING:
    from ringtune._engine import TlsKeyring, TlsSession

OFF = "off"
BY_JOB_KEY = "by the job key"
BY_CERTIFICATES = "by certificates"
MODES = (OFF, BY_JOB_KEY, BY_CERTIFICATES)


Keyring: TypeAlias = "TlsKeyring"
Session: TypeAlias = "TlsSession"


class TlsError(OSError):
    """TLS refuses the other end's data, or the other end refuses this one's keys; in OpenSSL's words."""


@dataclass(frozen=True)
class Tls:
    """Protection of a process's TCP connections to the rest of the job; equal on all ranks.

    Attributes:
        mode: One of `MODES`.
        certificates: Keyring of the certificates; None in the other modes.
    """

    mode: str = OFF
    certificates: "TlsKeyring | None" = field(default=None, compare=False)

    @property
    def is_on(self) -> bool:
        """True if connections are encrypted."""
        return self.mode != OFF

    def keyring(self, shared_key: bytes) -> "TlsKeyring":
        """Return the keys of connections whose ends share a key of 32 bytes.

        Raises:
            ConfigError: If there is no OpenSSL.
        """
        if self.certificates is not None:
            return self.certificates
        keyring: TlsKeyring = _engine().TlsKeyring.by_shared_key(shared_key)
        return keyring


CLEAR = Tls()
"""No TLS: connections carry clear text after the proof of the job key."""


def tls_by_job_key() -> Tls:
    """Return TLS by the job key; raises `ConfigError` if there is no OpenSSL."""
    _engine().TlsKeyring.by_shared_key(bytes(32))
    return Tls(BY_JOB_KEY)


def tls_by_certificates(certificate: str, key: str, authority: str) -> Tls:
    """Return TLS by PEM files, see `TlsKeyring.by_files`; raises `ConfigError` if one has the wrong content."""
    return Tls(BY_CERTIFICATES, _engine().TlsKeyring.by_files(certificate, key, authority))


class TlsSocket:
    """The part of a socket's interface that a channel needs, by TLS.

    Attributes:
        plain: The connected TCP socket, which stays the caller's.
        session: Its session.
    """

    def __init__(self, plain: socket.socket, keyring: "TlsKeyring", *, is_server: bool) -> None:
        """Make the session; its handshake goes on with every call."""
        self.plain = plain
        self.session: TlsSession = _engine().TlsSession(keyring, plain.fileno(), is_server=is_server)
        self._has_agreed = False

    def agrees(self) -> bool:
        """Go on with the handshake and return whether it is over; errors as for `recv`."""
        with _socket_errors():
            self._has_agreed = self._has_agreed or self.session.handshake() == "done"
        return self._has_agreed

    def send(self, data: memoryview) -> int:
        """Send as much as goes at once, and return how many bytes; errors as for `recv`."""
        sent = 0
        if self.agrees():
            with _socket_errors():
                sent = self.session.send(bytes(data))
        if sent == 0:
            raise BlockingIOError
        return sent

    def recv(self, size: int) -> bytes:
        """Return the bytes that are there, up to `size`.

        Raises:
            BlockingIOError: If no data is there now.
            TlsError: If TLS refuses the other end's data, or the other end refuses this one's keys.
            ConnectionError: If the connection has ended.
        """
        data = b""
        if self.agrees():
            with _socket_errors():
                data = self.session.receive(size)
        if not data:
            raise BlockingIOError
        return data


@contextmanager
def _socket_errors() -> Iterator[None]:
    try:
        yield
    except PeerLostError as error:
        raise ConnectionError(str(error)) from error
    except ConfigError as error:
        raise TlsError(str(error)) from error


def _engine() -> ModuleType:
    """Return the engine's module, which takes the OpenSSL that the interpreter has loaded."""
    with suppress(ImportError):  # without its own OpenSSL the system's is taken
        import ssl  # noqa: F401, PLC0415  (only a job with TLS pays for it)
    from ringtune import _engine  # noqa: PLC0415  (a launcher without TLS does without the engine)

    return _engine
