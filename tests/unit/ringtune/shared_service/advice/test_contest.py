# SPDX-License-Identifier: Apache-2.0
"""The contest of configs: votes, ties, rivals, and opponents that adopted a rival."""

import pytest

from ringtune.shared_service.advice.contest import Contender, Place, places

LOW = 0.05


def contender(
    name: str, adopted: str = "", kept: str = "", faster: str = "", *, slower: int = 0, is_over_default: bool = True
) -> Contender:
    """Return a config; a letter is a reporter."""
    return Contender(
        name, is_over_default, dict.fromkeys(adopted, LOW), frozenset(kept), dict.fromkeys(faster, LOW), slower
    )


def place_of(first: Contender, *others: Contender) -> Place:
    """Return the place of the first of some configs."""
    return places([first, *others])[first.name]


@pytest.mark.parametrize(
    ("adopted", "kept", "supported", "promising"),
    [
        ("a", "", False, True),
        ("ab", "", True, True),
        ("ab", "c", True, True),
        ("ab", "cd", False, True),
        ("ab", "cde", False, False),
        ("a", "c", False, True),
        ("a", "cd", False, False),
    ],
)
def test_two_that_adopted_it_and_fewer_against_support_a_config(
    adopted: str, kept: str, *, supported: bool, promising: bool
) -> None:
    """A single adoption, or as many against it, do not."""
    place = place_of(contender("x", adopted, kept))

    assert (supported, supported, promising) == (place.is_supported, place.is_confirmed, place.is_promising)


def test_windows_promise_where_nobody_tested() -> None:
    """More reporters with faster windows than with slower ones; a test that kept the default ends it."""
    assert place_of(contender("x", faster="ab", slower=1)).is_promising
    assert not place_of(contender("x", faster="a", slower=1)).is_promising
    assert not place_of(contender("x", kept="c", faster="ab")).is_promising
    assert not place_of(contender("x", faster="abcdef")).is_supported


@pytest.mark.parametrize("reporters", ["abcd", "abcdef"])
def test_opponents_that_adopted_a_rival_contest_a_config_and_do_not_put_it_out(reporters: str) -> None:
    """Equally many adopted two configs, and those that adopted the second report that the first is slow."""
    half = len(reporters) // 2
    good = contender("good", reporters[:half], kept=reporters[half:])
    bad = contender("bad", reporters[half:])

    assert (True, True, False) == (
        place_of(good, bad).is_promising,
        place_of(good, bad).is_supported,
        place_of(good, bad).is_confirmed,
    )
    assert (False, 0) == (place_of(bad, good).is_confirmed, place_of(bad, good).beaten)


def test_nothing_is_confirmed_where_as_many_others_adopted_another() -> None:
    """Fewer other adopters do not contest it, nor do the same reporters if they find it the better one."""
    pair = contender("x", "ab")

    assert not place_of(pair, contender("y", "cd")).is_confirmed
    assert not place_of(pair, contender("y", "bcd")).is_confirmed
    assert place_of(pair, contender("y", "c")).is_confirmed
    assert place_of(pair, Contender("y", True, dict.fromkeys("ab", 0.01), frozenset(), {}, 0)).is_confirmed
    assert place_of(pair, contender("y", "cdef", is_over_default=False)).is_confirmed


def test_a_tested_config_beats_every_untested_one() -> None:
    """However many windows promise."""
    untested = [contender(f"w{number}", faster="abcdef") for number in range(3)]

    assert 3 == place_of(contender("x", "g"), *untested).beaten
