# SPDX-License-Identifier: Apache-2.0
"""Places of a training: which of two is beyond the other."""

import pytest

from ringtune.meeting.rendezvous.progress import MAX_COUNTERS, Progress


def at(commits: int = 1, moving: tuple[str, ...] = (), **counters: int) -> Progress:
    """Return the place of a commit."""
    return Progress(counters, frozenset(moving), commits)


@pytest.mark.parametrize(
    ("place", "earlier", "is_beyond"),
    [
        (at(step=20), at(moving=("step",), step=10), True),
        (at(step=10), at(moving=("step",), step=10), False),
        (at(0, step=10), at(step=10), False),
        (at(epoch=3, batch=10, total=12), at(moving=("batch", "total"), epoch=3, batch=10, total=11), False),
        (at(epoch=4, batch=10, total=41), at(moving=("batch", "total"), epoch=3, batch=10, total=11), True),
        (at(epoch=3, batch=20, total=22), at(moving=("batch", "total"), epoch=3, batch=10, total=11), True),
        (at(epoch=4), at(epoch=3), True),
        (at(5, epoch=3), at(3, epoch=3), True),
        (at(3, epoch=3), at(3, epoch=3), False),
        (at(5), at(3), True),
        (at(3), at(3), False),
    ],
)
def test_a_commit_that_is_made_once_more_is_no_newer_one(place: Progress, earlier: Progress, is_beyond: bool) -> None:
    """A loop may commit again where it begins again; a counter of all steps goes on even then."""
    assert is_beyond is place.is_beyond(earlier)


def test_a_place_survives_its_message() -> None:
    """Message and place say the same."""
    place = at(3, ("step",), epoch=1, step=20)

    assert place == Progress.from_message(place.to_message())


@pytest.mark.parametrize(
    "fields",
    [
        None,
        [],
        {"counters": {"step": 1}, "moving": []},
        {"counters": {"step": "1"}, "moving": [], "commits": 1},
        {"counters": {str(n): n for n in range(MAX_COUNTERS + 1)}, "moving": [], "commits": 1},
        {"counters": {}, "moving": "step", "commits": 1},
        {"counters": {}, "moving": [], "commits": None},
    ],
)
def test_a_malformed_message_tells_nothing(fields: object) -> None:
    """A launcher trusts no byte of its workers."""
    assert Progress.from_message(fields) is None
