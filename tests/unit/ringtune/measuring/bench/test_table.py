# SPDX-License-Identifier: Apache-2.0
"""The table of results."""

import pytest
from rich.console import Console

from ringtune.measuring.bench.paired_ratios import Ratio
from ringtune.measuring.bench.results import PairedRatio, Summary
from ringtune.measuring.bench.table import comparison_text, make_tables, ratio_text, size_text, time_text


@pytest.mark.parametrize(
    ("size_bytes", "text"), [(4, "4 B"), (1024, "1 KiB"), (1536, "1536 B"), (64 << 20, "64 MiB"), (1 << 30, "1024 MiB")]
)
def test_a_size_is_shown_exactly(size_bytes: int, text: str) -> None:
    """A size that is no whole number of a unit is shown in a smaller one."""
    assert text == size_text(size_bytes)


@pytest.mark.parametrize(("us", "text"), [(0.3456, "0.346"), (15.04, "15"), (99.96, "100"), (12345.6, "12,346")])
def test_a_time_has_the_digits_that_count(us: float, text: str) -> None:
    """Three of them, and never an exponent."""
    assert text == time_text(us)


@pytest.mark.parametrize(("ratio", "text"), [(0.0123, "0.012"), (0.5, "0.50"), (9.994, "9.99"), (1814.2, "1,814")])
def test_a_ratio_has_the_digits_that_count(ratio: float, text: str) -> None:
    """Small ratios are not rounded to zero."""
    assert text == ratio_text(ratio)


def test_an_interval_follows_its_ratio() -> None:
    """An interval is shown after its ratio if there are rounds enough for one."""
    assert "" == comparison_text(None)
    assert "0.50" == comparison_text(PairedRatio(0.5, None))
    assert "0.50 (0.40-0.62)" == comparison_text(PairedRatio(0.5, Ratio(0.5, 0.4, 0.62)))


def text_of(summaries: list[Summary]) -> str:
    """Return all tables as a wide terminal shows them."""
    console = Console(width=100, record=True, quiet=False, file=None)
    with console.capture() as capture:
        console.print(*make_tables(summaries, 2, 3))
    return capture.get()


def test_the_table_names_a_size_once() -> None:
    """The other ways of a size follow below it."""
    text = text_of([Summary("", 1024, way, 1.0, 2.0, None, None) for way in ("staged", "engine")])

    assert 1 == text.count("1 KiB")
    assert "2 ranks, 3 rounds" in text


def test_steps_are_shown_in_milliseconds() -> None:
    """In a table of their own, with the workload's name and size."""
    text = text_of(
        [
            Summary("", 1024, "engine", 7.0, 8.0, None, None),
            Summary("small", 3 << 19, "engine", 2500.0, 123_456.0, None, None),
        ]
    )

    sizes, _, steps = text.partition("steps of float32 gradients, summed, 2 ranks, 3 rounds")
    assert ("us", "ms") == (sizes.split("┃")[3].strip(), steps.split("┃")[3].strip())
    assert ["small, 1.5 MiB", "engine", "2.5", "123"] == [cell.strip() for cell in steps.split("│")[1:5]]


def test_there_is_no_empty_table() -> None:
    """A run with sizes alone, or with workloads alone, has no empty table for the others."""
    assert 1 == len(make_tables([Summary("small", 4, "engine", 1.0, 1.0, None, None)], 2, 3))
    assert 1 == len(make_tables([Summary("", 4, "engine", 1.0, 1.0, None, None)], 2, 3))
