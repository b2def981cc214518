# SPDX-License-Identifier: Apache-2.0
"""Rounds of the ranks, of which only the largest of each number survives."""

import pytest

from ringtune.errors import MismatchError
from ringtune.tuning.model.exchange import Wish
from ringtune.tuning.model.live_model import NO_LIMIT, Texts
from ringtune.tuning.model.rounds import Round, Vote

WORLD = 4
TEXTS = Texts(settings="buckets", tuner="the tuner", compared="the parameters")
WISH = Wish(3, (5_000, 70), is_decision=True)


def merged(rounds: list[list[int]]) -> list[int]:
    """Return the element-wise maximum, as the ranks compute it."""
    return [max(words) for words in zip(*rounds, strict=True)]


def test_rank_0s_wish_reaches_everybody() -> None:
    """The other ranks have none, and add zeros."""
    rounds = [Round(8, WISH if rank == 0 else None, None) for rank in range(WORLD)]

    agreed = Round.from_words(merged([one.words(WORLD, 2) for one in rounds]), WORLD)

    assert Round(8, WISH, None) == agreed


def test_the_last_wish_is_known_as_such() -> None:
    """The last wish is marked as such, whether or not it is a decision."""
    last = Round(8, Wish(3, (5_000, 70), is_last=True), None)

    assert last == Round.from_words(last.words(WORLD, 2), WORLD)


def test_of_several_objections_the_first_ranks_is_named() -> None:
    """One rank gives its objection, once."""
    rounds = [Round(2, WISH if rank == 0 else None, rank if rank in (1, 3) else None) for rank in range(WORLD)]

    agreed = Round.from_words(merged([one.words(WORLD, 2) for one in rounds]), WORLD)

    assert 1 == agreed.objector


def test_rank_0s_objection_counts() -> None:
    """Zero is a rank, and no absence of one."""
    assert 0 == Round.from_words(Round(2, WISH, 0).words(WORLD, 2), WORLD).objector


def test_ranks_that_have_lost_step_are_found() -> None:
    """Every rank sees it, and the error has both numbers."""
    words = merged([Round(step, None, None).words(WORLD, 2) for step in (6, 8, 6, 6)])

    with pytest.raises(MismatchError, match="6 to 8 steps"):
        Round.from_words(words, WORLD)


def test_the_least_room_of_any_rank_counts() -> None:
    """A rank without a limit has more room than any; one above its limit has less than none."""
    rounds = [Round(4, WISH if rank == 0 else None, None, room_bytes=room) for rank, room in enumerate([9, -3, 5])]

    agreed = Round.from_words(merged([one.words(WORLD, 2) for one in rounds]), WORLD)

    assert -3 == agreed.room_bytes
    assert NO_LIMIT == Round.from_words(Round(4, WISH, None).words(WORLD, 2), WORLD).room_bytes


def test_one_rank_that_cannot_change_is_enough() -> None:
    """The vote must be unanimous."""
    votes = [Vote(99, has_failed=rank == 2) for rank in range(WORLD)]

    outcome = votes[0].check_equal(merged([vote.words() for vote in votes]), TEXTS)

    assert outcome.has_failed


@pytest.mark.parametrize("digests", [(5, 6), (6, 5)])
def test_differing_hashes_raise_on_every_rank(digests: tuple[int, int]) -> None:
    """Every rank raises, whether its hash is the larger or not."""
    words = merged([Vote(digest, has_failed=False).words() for digest in digests])

    for digest in digests:
        with pytest.raises(MismatchError, match="0000000000000005 to 0000000000000006"):
            Vote(digest, has_failed=False).check_equal(words, TEXTS)
