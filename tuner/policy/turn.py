# SPDX-License-Identifier: Apache-2.0
"""Turns of jobs that tune on the same machine: only one of them tries configs at a time."""

from typing import Protocol


class Turn(Protocol):
    """A job's turn. All calls come from the tuning thread, `release` from any."""

    def try_take(self) -> bool:
        """Return whether the job has its turn now; takes a few seconds at most, and never raises."""

    def release(self) -> None:
        """Give the turn to others; idempotent, and never raises."""


class FreeTurn:
    """The turn of a job that waits for nobody."""

    def try_take(self) -> bool:
        """Return True."""
        return True

    def release(self) -> None:
        """Do nothing."""
