# SPDX-License-Identifier: Apache-2.0
"""Numbers of things and ages in words."""

import pytest

from ringtune.system.counts import age_in_days, counted


@pytest.mark.parametrize(
    ("number", "noun", "text"),
    [
        (0, "result", "0 results"),
        (1, "result", "1 result"),
        (1_200, "result", "1,200 results"),
        (2, "study", "2 studies"),
        (1, "study", "1 study"),
        (2, "day", "2 days"),
        (3, "launch", "3 launches"),
        (2, "process", "2 processes"),
        (2, "paired test", "2 paired tests"),
    ],
)
def test_a_noun_is_in_the_number_of_its_count(number: int, noun: str, text: str) -> None:
    """Thousands are set apart; one thing is no several."""
    assert text == counted(number, noun)


@pytest.mark.parametrize(
    ("age_s", "text"),
    [(-5.0, "today"), (0.0, "today"), (86_399.0, "today"), (86_400.0, "1 day old"), (12.9 * 86_400.0, "12 days old")],
)
def test_an_age_is_in_whole_days(age_s: float, text: str) -> None:
    """An age below zero, from a clock that was set back, is shown as today."""
    assert text == age_in_days(age_s)
