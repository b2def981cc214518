# SPDX-License-Identifier: Apache-2.0
"""Guesses of tokens: an address that sends many different tokens that are not valid has to wait, and the log says so.

A token that was valid from the same address before goes on to work meanwhile. Behind a proxy all clients have the
proxy's address: there a flood of guesses makes clients wait that come with a token for the first time.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog
from cachetools import LRUCache

from ringtune.service.errors import RateLimited

BURST = 20
"""Tokens that are not valid, from one address, at once."""
PER_S = 1.0
"""Further guesses per second."""
TOLD_EVERY_S = 60.0
"""A flood from one address is told in the log this often."""
MAX_ADDRESSES = 10_000
MAX_VALID = 10_000
MAX_WRONG = 100
"""Wrong tokens of an address that are remembered."""


@dataclass
class _Failures:
    left: float
    updated_s: float
    tokens: set[bytes] = field(default_factory=set)
    told_s: float = -TOLD_EVERY_S
    untold: int = 0


class Guesses:
    """Counts tokens that are not valid, by address; used from the event loop alone."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Begin without any; `clock` is in seconds."""
        self._clock = clock
        self._failures: LRUCache[str, _Failures] = LRUCache(MAX_ADDRESSES)
        self._valid: LRUCache[tuple[str, bytes], None] = LRUCache(MAX_VALID)

    def check(self, address: str, authorization: bytes) -> None:
        """Let a token be looked up.

        Raises:
            RateLimited: If too many from this address were not valid, and this one was not valid from there before.
        """
        failures = self._failures.get(address)
        if failures is None or (address, _digest(authorization)) in self._valid:
            return
        self._refill(failures)
        if failures.left < 1:
            failures.untold += 1
            self._tell(address, failures)
            raise RateLimited(
                f"too many tokens from {address} were not valid; wait, and check the token",
                retry_after_s=(1 - failures.left) / PER_S,
            )

    def failed(self, address: str, authorization: bytes) -> None:
        """Count a token that is not valid, once: a job that was given a wrong one sends it again and again."""
        failures = self._failures.setdefault(address, _Failures(BURST, self._clock()))
        self._refill(failures)
        token = _digest(authorization)
        if token not in failures.tokens:
            failures.left = max(0.0, failures.left - 1)
            if len(failures.tokens) >= MAX_WRONG:
                failures.tokens.clear()
            failures.tokens.add(token)

    def succeeded(self, address: str, authorization: bytes) -> None:
        """Remember that a token is valid, and used from this address."""
        self._valid[address, _digest(authorization)] = None

    def _refill(self, failures: _Failures) -> None:
        now_s = self._clock()
        failures.left = min(BURST, failures.left + (now_s - failures.updated_s) * PER_S)
        failures.updated_s = now_s

    def _tell(self, address: str, failures: _Failures) -> None:
        if self._clock() < failures.told_s + TOLD_EVERY_S:
            return
        structlog.get_logger().warning("tokens_guessed", address=address, refused=failures.untold)
        failures.told_s, failures.untold = self._clock(), 0


def _digest(authorization: bytes) -> bytes:
    return hashlib.sha256(authorization).digest()
