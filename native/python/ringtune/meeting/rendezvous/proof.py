# SPDX-License-Identifier: Apache-2.0
"""Mutual proof that both ends of a connection hold the job key, without showing it.

Both sides send a fresh nonce; each proves by HMAC-SHA256 over its role and all bytes exchanged so far. A proof
made for one role, purpose, pair of ranks, generation or connection is invalid in another.
"""

import hmac
import secrets
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256

from .tls import CLEAR, Keyring, Tls

PROTOCOL_VERSION = 3
NONCE_BYTES = 32
MIN_KEY_BYTES = 16
NO_RANK = -1  # number of a launcher or server, which answers but is no rank, and of a worker that has none yet
JOIN_PURPOSE = "join"  # purpose of the connection of a worker to the rendezvous server
MEETING_PURPOSE = "meeting"  # purpose of the connection of a rank to rank 0 at init


@dataclass(frozen=True)
class Membership:
    """Membership of a process in a job: key, generation and claim that it proves to the others.

    Attributes:
        rank: This process, or `NO_RANK`.
        generation: Number of times that the job has initialised before; None accepts any.
        job_key: Secret that all ranks of the job share.
        tls: Protection of the TCP connections that are proved with it.
    """

    rank: int
    generation: int | None
    job_key: bytes = field(repr=False)
    tls: Tls = CLEAR

    @property
    def who(self) -> str:
        """The process in words."""
        return "this worker" if self.rank == NO_RANK else f"rank {self.rank}"

    @cached_property
    def keyring(self) -> "Keyring":
        """Keys of the connections' TLS, where there is any."""
        return self.tls.keyring(derived_key(self.job_key, "tls"))


@dataclass(frozen=True)
class Transcript:
    """Statements of both ends of a connection, before they prove themselves.

    Attributes:
        purpose: Purpose of the connection.
        generation: Generation of the caller.
        caller: The rank that connected.
        callee: The rank that listens, or `NO_RANK`.
        caller_nonce: Fresh, of the caller.
        callee_nonce: Fresh, of the callee.
        caller_tls: Mode of the caller's TLS.
        callee_tls: Mode of the callee's TLS.
        binding: Secret of the TLS connection in hex; empty on one of clear text. Whoever passes the statements of two
            ends on has a connection of its own with each, and no proof for it.
    """

    purpose: str
    generation: int
    caller: int
    callee: int
    caller_nonce: str
    callee_nonce: str
    caller_tls: str
    callee_tls: str
    binding: str

    @property
    def is_one_tls(self) -> bool:
        """True if both ends have the same mode of TLS."""
        return self.caller_tls == self.callee_tls

    def proof(self, job_key: bytes, role: str) -> str:
        """Return the proof of `role`, `caller` or `callee`, in hex."""
        fields = (
            "ringtune",
            str(PROTOCOL_VERSION),
            role,
            self.purpose,
            str(self.generation),
            str(self.caller),
            str(self.callee),
            self.caller_nonce,
            self.callee_nonce,
            self.caller_tls,
            self.callee_tls,
            self.binding,
        )
        return hmac.new(job_key, "\n".join(fields).encode(), sha256).hexdigest()

    def is_proof(self, job_key: bytes, role: str, claimed: object) -> bool:
        """Return whether `claimed` is the proof of `role`, in constant time."""
        return isinstance(claimed, str) and hmac.compare_digest(
            self.proof(job_key, role).encode(), claimed.encode("utf-8", "replace")
        )


def derived_key(job_key: bytes, label: str) -> bytes:
    """Return a key for a part of the job; the job's key cannot be derived from it."""
    return hmac.new(job_key, f"ringtune\n{label}".encode(), sha256).digest()


def new_nonce() -> str:
    """Return a fresh nonce in hex."""
    return secrets.token_hex(NONCE_BYTES)


def is_nonce(value: object) -> bool:
    """Return whether a peer's nonce has the right form."""
    if not isinstance(value, str) or len(value) != 2 * NONCE_BYTES:
        return False
    return all(character in "0123456789abcdef" for character in value)
