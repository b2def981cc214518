# SPDX-License-Identifier: Apache-2.0
"""Roster of an elastic job on Ray: the first meeting begins as soon as all workers that were started are there."""

from collections.abc import Sequence

from ringtune.meeting.rendezvous.roster import Gathering, RangeRoster, Worker, by_seniority, in_rank_order

QUIET_S = 10.0  # time for further workers after the last arrival, if not all of those that were started come


class RayRoster(RangeRoster):
    """Decides which workers meet, and remembers the ranks of the latest meeting.

    Attributes:
        started: Number of workers that were started.
        meetings: Number of meetings so far.
        ranks: Rank of each worker of the latest meeting, by its name.
    """

    def __init__(self, min_size: int, max_size: int) -> None:
        """Make the roster.

        Args:
            min_size: Smallest number of workers that may train.
            max_size: Largest number.
        """
        super().__init__(min_size, max_size, QUIET_S)
        self.started = max_size
        self.meetings = 0
        self.ranks: dict[str, int] = {}
        self._smallest, self._largest = min_size, max_size

    def meeting(self, gathering: Gathering) -> Sequence[Worker] | None:
        """Begin when all workers that were started are there, or enough are and no other is expected."""
        present = gathering.present
        if len(present) >= max(self.started, self._smallest):
            return in_rank_order(by_seniority(present)[: self._largest])
        return super().meeting(gathering)

    def met(self, number: int, ranks: Sequence[Worker], /) -> None:
        """Remember the ranks."""
        super().met(number, ranks)
        self.meetings += 1
        self.ranks = {worker.worker_id: rank for rank, worker in enumerate(ranks)}
