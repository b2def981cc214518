# SPDX-License-Identifier: Apache-2.0
"""Tests of the ends of tuning on rank 0's training thread: each reason reaches the tuning thread, and the verdict."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from ringtune.errors import MismatchError
from ringtune.tuning.model.control import ControlLost
from ringtune.tuning.model.exchange import Exchange, Wish
from ringtune.tuning.model.follower import RESTING_ROUND_STEPS, ROUND_STEPS, Follower, FollowerLinks
from ringtune.tuning.model.live_model import NO_LIMIT, Texts, Words
from ringtune.tuning.model.rounds import Round

FIRST, OTHER = (1, 2), (3, 4)
MIB = 2**20


@dataclass
class Ranks:
    """The ranks' control group: rounds come out as rank 0 posts them, changed by `change`.

    Attributes:
        change: Change that the other ranks make of a round.
        failing: Whether another rank cannot change its settings.
    """

    change: Callable[[Round], Round] = lambda own: own
    failing: bool = False
    rank: int = 0
    size: int = 2
    posted: list[int] | None = None

    def post(self, words: Sequence[int]) -> None:
        """Take rank 0's words."""
        self.posted = list(words)

    def take(self) -> list[int] | None:
        """Return the outcome of the round."""
        if self.posted is None:
            return None
        agreed = self.change(Round.from_words(self.posted, self.size))
        return agreed.words(self.size, len(FIRST))

    def agree(self, words: Sequence[int]) -> list[int]:
        """Return the outcome of a vote."""
        return [*words[:-1], 1 if self.failing else words[-1]]


@dataclass
class Model:
    """A model that takes any settings.

    Attributes:
        words: Settings in force.
        problem: Objection.
    """

    words: Words = FIRST
    problem: str | None = None
    texts: Texts = field(default_factory=lambda: Texts("buckets", "the tuner", "parameters"))

    def in_force(self) -> Words:
        """Return the settings."""
        return self.words

    def follow(self, steps: object) -> list[object]:
        """Return no steps: the test ends the steps."""
        return []

    def objection(self) -> str | None:
        """Return the objection."""
        return self.problem

    def digest(self, epoch: int, words: Words) -> int:
        """Return a hash."""
        return epoch + sum(words)

    def prepared(self, words: Words) -> "Model":
        """Make settings ready."""
        self.words = words
        return self

    def commit(self) -> None:
        """Keep them."""

    def discard(self) -> None:
        """Return to the first ones."""
        self.words = FIRST


class Clock:
    """A clock on which no step ends."""

    def mark(self, step: int, epoch: int) -> list[object]:
        """Return no durations."""
        return []


class NoMemory:
    """A watch that has always less room than there is, by a mebibyte."""

    def room_bytes(self) -> int:
        """Return the room."""
        return -MIB

    def reset(self) -> None:
        """Ignore it, as the room is fixed."""


def train(
    ranks: Ranks, model: Model, memory: NoMemory | None = None, wish: Words = FIRST
) -> tuple[Exchange, list[str]]:
    """Train rank 0 for a few rounds; return its exchange, and its warnings."""
    exchange, warnings = Exchange(FIRST), list[str]()
    exchange.ask(wish)
    follower = Follower(ranks, model, FollowerLinks(exchange, Clock(), warnings.append, memory=memory))  # type: ignore[arg-type]
    follower.follow()
    for _ in range(3 * RESTING_ROUND_STEPS):
        follower.end_step()
    return exchange, warnings


def fall_back(own: Round) -> Round:
    """Return a round in which the settings are a decision that needs too much memory."""
    assert own.wish is not None
    room = -MIB if own.wish.words == OTHER and own.step > 2 * ROUND_STEPS else NO_LIMIT
    return Round(own.step, Wish(1, OTHER, is_decision=True), None, own.beacons, room)


ENDS = {
    "memory under the first settings": (
        Ranks(), Model(), NoMemory(), "the memory of a rank was 1 MiB above its limit under the buckets that training",
    ),
    "memory under a decision": (
        Ranks(fall_back),
        Model(),
        None,
        "the memory of a rank was 1 MiB above its limit under the buckets that the tuner",
    ),
    "a change that another rank refuses": (Ranks(failing=True), Model(), None, "a rank could not change its buckets"),
    "an own objection": (Ranks(), Model(problem="the model has changed"), None, "the model has changed"),
    "another rank's objection": (
        Ranks(lambda own: Round(own.step, own.wish, 1)), Model(), None, "rank 1 has an objection, which it names",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("ranks", "model", "memory", "reason"), ENDS.values(), ids=ENDS)
def test_an_end_has_its_reason(ranks: Ranks, model: Model, memory: NoMemory | None, reason: str) -> None:
    """The tuning thread learns why tuning is over, also where another rank shows the warning."""
    exchange, warnings = train(ranks, model, memory, OTHER)

    assert exchange.closing.is_set()
    assert exchange.closing.reason.startswith(reason), exchange.closing.reason
    assert ("another" in reason or "which it names" in reason) or exchange.closing.reason in warnings[0]


def test_the_last_wish_is_no_reason() -> None:
    """The tuning thread itself has ended: no warning follows."""
    exchange, warnings = train(Ranks(lambda own: Round(own.step, Wish(0, FIRST, is_last=True), None)), Model())

    assert exchange.closing.is_set()
    assert ("", []) == (exchange.closing.reason, warnings)


def test_ranks_that_part_have_their_reason() -> None:
    """A rank is gone, or is at another step: the training shows the error, and the verdict has its first line."""

    def lose(own: Round) -> Round:
        raise ControlLost("rank 1 is gone")

    def mismatch(own: Round) -> Round:
        raise MismatchError("ranks have done 3 to 4 steps")

    exchange, _ = train(Ranks(lose), Model())
    with pytest.raises(MismatchError):
        train(Ranks(mismatch), Model())

    assert "the ranks can no longer agree (rank 1 is gone)" == exchange.closing.reason
