# SPDX-License-Identifier: Apache-2.0
"""Classes of `ringtune._engine`, whose stub takes them from here; there is no module of this name."""

class Window:
    """Consecutive steps measured under one config.

    Attributes:
        void_reason: None for a valid window, else `pause`, `tensor_set_changed`, `mixed_epochs` or `no_gradients`.
        was_cut: True if the window was closed early because its steps ran over `limit_ms`.
    """

    epoch: int
    last_step: int
    step_ms: list[float]
    bytes_per_step: int
    tensor_set: int
    void_reason: str | None
    was_cut: bool

class TlsKeyring:
    """Keys for TLS 1.3 by OpenSSL, which is loaded with the first keyring. `ConfigError` if it cannot be had."""

    @staticmethod
    def by_shared_key(key: bytes) -> TlsKeyring:
        """Return the keyring of a key of 32 bytes that both ends hold; each connection adds Diffie-Hellman."""

    @staticmethod
    def by_files(certificate: str, key: str, authority: str) -> TlsKeyring:
        """Return the keyring of a certificate; `ConfigError` names a file whose content is wrong.

        Args:
            certificate: PEM file with this process's certificate, followed by those between it and the authority.
            key: PEM file with the certificate's key, without a password.
            authority: PEM file with the certificates of which one must have signed the other end's.
        """

class TlsSession:
    """TLS over one socket, which stays the caller's and never blocks. Every call is thread-safe.

    Calls raise `PeerLostError` where the connection ended, and `ConfigError` with OpenSSL's words where TLS refuses
    bytes of the other end.
    """

    def __init__(self, keyring: TlsKeyring, fd: int, *, is_server: bool) -> None: ...
    def handshake(self) -> str:
        """Go on with the handshake; return "done", or "read" or "write" for the readiness that the socket must have."""

    def send(self, data: bytes) -> int:
        """Return how many bytes the socket took; the next call must begin with the first that it did not take."""

    def receive(self, limit_bytes: int) -> bytes:
        """Return the bytes received so far, empty for "not now"."""

    def has_buffered(self) -> bool:
        """Return whether bytes can be received although the socket may have none."""

    def binding(self) -> bytes:
        """Return a secret of this connection alone, 32 bytes, which both ends know once the handshake is done."""

    def move_to(self, fd: int) -> None:
        """Go on over another descriptor of the same connection."""
