# SPDX-License-Identifier: Apache-2.0
"""The turn of a PyTorch job on several hosts: rounds carry the beacons between rank 0 and a rank of each other host."""

from collections.abc import Sequence
from dataclasses import dataclass

from ringtune.tuning.job.hosts_turn import BUSY, IDLE, WANTED, LockAnswers

NO_ANSWER = 255  # above every beacon: a rank that answers for no host
TURN_WORDS = 3
LIMIT_S = 60.0
"""Longest wait for the answers of other hosts, seconds: some rounds of a job with slow steps."""


@dataclass(frozen=True)
class TurnWords:
    """Beacons of a round, or its outcome.

    Attributes:
        wanted: Beacon of rank 0; 0 from the others.
        most: Highest answer of a host.
        least: Lowest answer of a host.
    """

    wanted: int = IDLE
    most: int = IDLE
    least: int = NO_ANSWER

    def words(self) -> list[int]:
        """Return the numbers that carry them."""
        return [self.wanted, self.most, -self.least]

    @classmethod
    def from_words(cls, words: Sequence[int]) -> "TurnWords":
        """Return the outcome."""
        wanted, most, least = words
        return cls(wanted, most, -least)

    @property
    def answer(self) -> int:
        """The answer of all hosts as one: held if all are, busy if one is."""
        if BUSY in {self.most, self.least}:
            return BUSY
        return self.most if self.most == self.least else WANTED


class RoundBeacons:
    """Beacons of one rank between two rounds; see `tuning.job.hosts_turn.Beacons`. Safe to use from any thread."""

    def __init__(self, rank: int) -> None:
        """Begin with the beacon `IDLE`."""
        self._rank = rank
        self._shown = IDLE
        self._agreed = TurnWords()
        self.answers: LockAnswers | None = None
        """Answers for this rank's host, on the first rank of a host other than rank 0's."""

    def set_beacon(self, beacon: int) -> None:
        """Show a number from the next round on."""
        self._shown = beacon

    def beacon_of(self, rank: int) -> int:
        """Return rank 0's number; on rank 0 the answer of all hosts."""
        return self._agreed.wanted if rank == 0 else self._agreed.answer

    def words(self) -> TurnWords:
        """Return this rank's contribution to a round."""
        if self._rank == 0:
            return TurnWords(wanted=self._shown)
        return TurnWords() if self.answers is None else TurnWords(most=self._shown, least=self._shown)

    def agree(self, agreed: TurnWords) -> None:
        """Take a round's outcome, and answer it."""
        self._agreed = agreed
        if self.answers is not None:
            self.answers.look()

    def leave(self) -> None:
        """Give this host's lock back: the rounds are over."""
        if self.answers is not None:
            self.answers.stop()
