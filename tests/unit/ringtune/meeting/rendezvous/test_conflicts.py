# SPDX-License-Identifier: Apache-2.0
"""Reasons for rank 0 to refuse a rank's introduction."""

from typing import Any

import pytest

from ringtune.errors import ConfigError
from ringtune.meeting.rendezvous.conflicts import find_conflict, join_message, missing_ranks
from ringtune.meeting.rendezvous.place import Offer, Place

HOST = "boot/1"
PLACE = Place(rank=0, world_size=2, generation=0, source="test")
OFFER = Offer(given={"AUTOTUNE": True}, effective={"AUTOTUNE": True, "RINGTUNE_CYCLE_MS": 1.0})


def join(**changes: Any) -> dict[str, Any]:
    """Return the introduction of an agreeing rank 1, with changes."""
    message = join_message(PLACE, Offer({}, {}), HOST)
    return {**message, **changes}


def test_a_rank_that_sets_nothing_agrees() -> None:
    """Rank 0's settings hold for ranks without settings."""
    assert find_conflict(PLACE, OFFER, 1, join()) is None


@pytest.mark.parametrize("given", [{"AUTOTUNE": True}, {"RINGTUNE_CYCLE_MS": 1.0}, {"RINGTUNE_CYCLE_MS": 1}])
def test_a_rank_that_sets_the_same_agrees(given: dict[str, Any]) -> None:
    """A rank may repeat a setting that holds anyway, as a default or as rank 0 set it."""
    assert find_conflict(PLACE, OFFER, 1, join(given=given)) is None


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"AUTOTUNE": False}, ["rank 1", "AUTOTUNE=False", "rank 0 sets True"]),
        ({"RINGTUNE_CYCLE_MS": 5.0}, ["rank 1", "RINGTUNE_CYCLE_MS=5.0", "by default, 1.0"]),
    ],
)
def test_a_rank_that_sets_another_value_is_an_error(given: dict[str, Any], words: list[str]) -> None:
    """The error names the variable and both values."""
    conflict = find_conflict(PLACE, OFFER, 1, join(given=given))

    assert isinstance(conflict, ConfigError)
    assert all(word in str(conflict) for word in words)


@pytest.mark.parametrize(
    ("changes", "word"),
    [({"world_size": 3}, "world_size"), ({"version": "9"}, "version"), ({"host": 3}, "where it runs")],
)
def test_a_rank_of_another_world_is_an_error(changes: dict[str, Any], word: str) -> None:
    """A rank of another world size or version cannot take part, nor one without an address."""
    conflict = find_conflict(PLACE, OFFER, 1, join(**changes))

    assert isinstance(conflict, ConfigError)
    assert word in str(conflict)


@pytest.mark.parametrize("given", [None, [], "x", 3])
def test_nonsense_in_place_of_settings_is_an_error(given: object) -> None:
    """Settings of another type are refused, not read."""
    assert isinstance(find_conflict(PLACE, OFFER, 1, join(given=given)), ConfigError)


def test_a_failing_rank_stops_the_job_with_its_own_words() -> None:
    """The others raise the same class and hear which rank it was."""
    failing = join_message(PLACE, Offer({}, {}, failure=ConfigError("AUTOTUNE='x' is not allowed")), HOST)

    conflict = find_conflict(PLACE, OFFER, 1, failing)

    assert isinstance(conflict, ConfigError)
    assert "rank 1: AUTOTUNE='x' is not allowed" == str(conflict)


def test_a_rank_of_another_host_agrees() -> None:
    """Ranks of other hosts are no conflict: rank 0 plans with them."""
    assert find_conflict(PLACE, OFFER, 1, join(host="boot/2")) is None


def test_missing_ranks_are_named_in_order() -> None:
    """Rank 0 is never missing, for it looks for the others."""
    assert [1, 3] == missing_ranks(4, {2})
