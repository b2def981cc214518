# SPDX-License-Identifier: Apache-2.0
"""Words of a round and of a vote: numbers of which only the largest over all ranks survives.

A number that must be equal everywhere travels with its negative: then the largest and the smallest survive.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ringtune.errors import MismatchError

from .exchange import Wish
from .live_model import NO_LIMIT, Texts
from .turns import TURN_WORDS, TurnWords

DIGEST_BITS = 62
"""A digest and its negative fit into 64 bits with a sign."""
_HEAD = 4  # words before the turn's: steps twice, objection, room
_WISH_FLAGS = 3  # words before a wish's settings: epoch, decision, last


@dataclass(frozen=True)
class Round:
    """One rank's contribution to a round, or the outcome of the round.

    Attributes:
        step: Steps done at the time of the round.
        wish: The wish of rank 0; None on the others.
        objector: The rank with an objection, or the first of several, or None.
        beacons: Beacons of the turn among jobs.
        room_bytes: Memory limit less the peak, the least of all ranks in an outcome; below 0 above the limit.
    """

    step: int
    wish: Wish | None
    objector: int | None
    beacons: TurnWords = field(default_factory=TurnWords)
    room_bytes: int = NO_LIMIT

    def words(self, world_size: int, settings_count: int) -> list[int]:
        """Return the numbers that carry it.

        Args:
            world_size: Number of ranks.
            settings_count: Number of words that settings have.
        """
        wish, objection = self.wish, 0 if self.objector is None else world_size - self.objector
        wished = [0] * (_WISH_FLAGS + settings_count)
        if wish is not None:
            wished = [wish.epoch, int(wish.is_decision), int(wish.is_last), *wish.words]
        return [self.step, -self.step, objection, -self.room_bytes, *self.beacons.words(), *wished]

    @classmethod
    def from_words(cls, words: Sequence[int], world_size: int) -> "Round":
        """Return the outcome.

        Raises:
            MismatchError: If ranks have done different numbers of steps.
        """
        latest, earliest, objection, least_room = words[:_HEAD]
        if latest != -earliest:
            raise MismatchError(
                f"ranks have done {-earliest} to {latest} steps at the same time: every rank must call autotune() at "
                "the same step, and do the same synchronised backward passes"
            )
        epoch, is_decision, is_last, *settings = words[_HEAD + TURN_WORDS :]
        wish = Wish(epoch, tuple(settings), bool(is_decision), bool(is_last))
        beacons = TurnWords.from_words(words[_HEAD : _HEAD + TURN_WORDS])
        return cls(latest, wish, world_size - objection if objection else None, beacons, -least_room)


@dataclass(frozen=True)
class Vote:
    """One rank's vote on the settings that it has made ready, or the outcome of the vote.

    Attributes:
        digest: Hash of the settings and all they act on, from `LiveModel.digest`.
        has_failed: True where this rank, or any in an outcome, could not make them ready.
    """

    digest: int
    has_failed: bool

    def words(self) -> list[int]:
        """Return the numbers that carry it."""
        return [self.digest, -self.digest, int(self.has_failed)]

    def check_equal(self, words: Sequence[int], texts: Texts) -> "Vote":
        """Return the outcome of this vote.

        Args:
            words: The largest of each number over all ranks.
            texts: Names in the error.

        Raises:
            MismatchError: If the ranks' digests differ; no settings came into force.
        """
        most, least, has_failed = words
        if (most, -least) != (self.digest, self.digest):
            raise MismatchError(
                f"the {texts.settings} of this rank would have the hash {self.digest:016x}, those of other ranks have "
                f"{-least:016x} to {most:016x}: {texts.compared} differ between ranks"
            )
        return Vote(self.digest, bool(has_failed))


def digest_of(facts: Sequence[Any]) -> int:
    """Return the hash, below 2^62, of facts that JSON can carry."""
    text = json.dumps(list(facts))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> (64 - DIGEST_BITS)
