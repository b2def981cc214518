# SPDX-License-Identifier: Apache-2.0
"""The error of a call of `ringtune.run` that has failed on a rank."""

from ringtune.errors import RingtuneError


class RankFailedError(RingtuneError):
    """A rank of `ringtune.run` raised, was killed, or took too long; no rank runs any more.

    Attributes:
        rank: The first that failed; None where none could report it.
        traceback_text: Its traceback; empty where there is none.
    """

    def __init__(self, message: str, rank: int | None = None, traceback_text: str = "") -> None:
        """Hold message, rank and traceback."""
        super().__init__(message)
        self.rank = rank
        self.traceback_text = traceback_text
