# SPDX-License-Identifier: Apache-2.0
"""Readers of single values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtune.settings.parsing import BooleanReader, IntegerReader, SecondsReader, TextReader, parse_size


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [("65536", 65536), ("64KiB", 65536), ("64 MiB", 2**26), ("1gb", 10**9), (" 8kb ", 8000), ("0", 0)],
)
def test_sizes_take_suffixes(text: str, size_bytes: int) -> None:
    """A size is bytes, or a number with a decimal or binary suffix."""
    assert size_bytes == parse_size(text)


@pytest.mark.parametrize("text", ["", "MiB", "-1", "1.5MiB", "64 Mi", "0x10", "1_000"])
def test_a_malformed_size_is_refused(text: str) -> None:
    """A text that is no size is an error, and never a guess."""
    with pytest.raises(ValueError, match=".*"):
        parse_size(text)


@given(st.text(max_size=12))
def test_a_switch_is_one_of_four_words(text: str) -> None:
    """Only 0, 1, true and false are switches, in any case of letters."""
    is_word = text.strip().lower() in {"0", "1", "true", "false"}

    try:
        value = BooleanReader().parse(text)
    except ValueError:
        assert not is_word
    else:
        assert is_word
        assert (text.strip().lower() in {"1", "true"}) == value


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "1_0", "abc", "", "0.01", "1e9"])
def test_seconds_are_finite_and_in_range(text: str) -> None:
    """Not-a-number, infinities and values outside the range are refused."""
    reader = SecondsReader(0.1, 600.0)

    with pytest.raises(ValueError, match=".*"):
        reader.parse(text)


def test_an_integer_may_have_a_word() -> None:
    """A word such as `auto` reads as None."""
    reader = IntegerReader(1, 9, ("auto",))

    assert reader.parse("auto") is None
    assert 7 == reader.parse("7")


@pytest.mark.parametrize("text", ["", "  ", "a\nb", "a\x00b"])
def test_text_has_no_control_characters(text: str) -> None:
    """A path or name that would disturb a terminal or a log is refused."""
    with pytest.raises(ValueError, match=".*"):
        TextReader().parse(text)
