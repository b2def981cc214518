# SPDX-License-Identifier: Apache-2.0
"""Circuit breaker with exponential backoff and jitter: many jobs do not call a failed service at the same time."""

import random
import time
from collections.abc import Callable

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0
OPENS_AFTER = 3
"""Failures in a row after which only one attempt per pause is made."""


class Breaker:
    """Counts failures in a row; used from one thread."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        share: Callable[[], float] = random.random,  # noqa: S311  (spreads calls, guards nothing)
    ) -> None:
        """Begin closed.

        Args:
            clock: Seconds, monotonic.
            share: Returns a random number in [0, 1).
        """
        self._clock = clock
        self._share = share
        self._failures = 0
        self._resumes_s = 0.0

    @property
    def wait_s(self) -> float:
        """Seconds until the next attempt may be made; 0 for now."""
        return max(self._resumes_s - self._clock(), 0.0) if self._failures else 0.0

    @property
    def is_open(self) -> bool:
        """True while the service has failed so often that an attempt now would be in vain."""
        return self._failures >= OPENS_AFTER and self.wait_s > 0

    def succeeded(self) -> None:
        """Forget the failures."""
        self._failures = 0

    def failed(self, retry_after_s: float | None = None) -> None:
        """Count a failure; the pause doubles each time, and is never shorter than the service asked for."""
        longest_s = min(FIRST_PAUSE_S * 2.0 ** min(self._failures, 16), LONGEST_PAUSE_S)
        self._failures += 1
        pause_s = max(longest_s * (0.5 + 0.5 * self._share()), retry_after_s or 0.0)
        self._resumes_s = self._clock() + pause_s
