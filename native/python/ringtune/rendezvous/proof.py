# SPDX-License-Identifier: Apache-2.0
"""Mutual proof that both ends of a connection hold the job key, without showing it.

Both sides send a fresh nonce; each proves by HMAC-SHA256 over its role and everything that was said so far. A proof
made for one role, rank, generation or connection is worth nothing in another.
"""

import hmac
import secrets
from dataclasses import dataclass
from hashlib import sha256

PROTOCOL_VERSION = 1
NONCE_BYTES = 32
MIN_KEY_BYTES = 16


@dataclass(frozen=True)
class Transcript:
    """What both ends of a connection have said when they prove themselves."""

    rank: int
    generation: int
    member_nonce: str
    coordinator_nonce: str

    def proof(self, job_key: bytes, role: str) -> str:
        """Return the proof of `role`, `member` or `coordinator`, in hex."""
        fields = (
            "ringtune-meeting",
            str(PROTOCOL_VERSION),
            role,
            str(self.rank),
            str(self.generation),
            self.member_nonce,
            self.coordinator_nonce,
        )
        return hmac.new(job_key, "\n".join(fields).encode(), sha256).hexdigest()

    def is_proof(self, job_key: bytes, role: str, claimed: object) -> bool:
        """Return whether `claimed` is the proof of `role`, in constant time."""
        return isinstance(claimed, str) and hmac.compare_digest(
            self.proof(job_key, role).encode(), claimed.encode("utf-8", "replace")
        )


def new_nonce() -> str:
    """Return a fresh nonce in hex."""
    return secrets.token_hex(NONCE_BYTES)


def is_nonce(value: object) -> bool:
    """Return whether a peer's nonce has the right form."""
    if not isinstance(value, str) or len(value) != 2 * NONCE_BYTES:
        return False
    return all(character in "0123456789abcdef" for character in value)
