# SPDX-License-Identifier: Apache-2.0
"""Errors of jobs on a Ray cluster. They are raised where the executor is used, never on a rank."""

from ringtune.errors import RingtuneError


class PlacementTimeoutError(RingtuneError, TimeoutError):
    """The cluster had no room for the workers in time, or they did not start; no worker was left behind.

    Code that was written for Horovod may catch it as a TimeoutError.
    """


class WorkerLostError(RingtuneError):
    """A worker's process or node ended during a call; `shutdown()` works, and `start()` makes new workers.

    Attributes:
        rank: The rank that was lost; None where ranks were not given yet.
    """

    def __init__(self, message: str, rank: int | None) -> None:
        """Hold message and rank."""
        super().__init__(message)
        self.rank = rank


class ElasticJobError(RingtuneError):
    """An elastic job had too few workers for too long, or its world changed too often; its workers were ended."""
