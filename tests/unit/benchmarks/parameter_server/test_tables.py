# SPDX-License-Identifier: Apache-2.0
"""The page's tables are those that its raw rows make."""

from dataclasses import replace

import pytest

from benchmarks.parameter_server.claims import Cell, Claims, ratio_of
from benchmarks.parameter_server.plan import SLOWDOWN
from benchmarks.parameter_server.rows import RUNS, Row, read_rows
from benchmarks.parameter_server.tables import MARKED, PAGE, Tables, rewritten
from benchmarks.parameter_server.trial import ASYNC, DDP, SYNC
from tests.unit.benchmarks.parameter_server.rows_of_a_run import ROUNDS, rows

MADE_AGAIN = "python -m benchmarks.parameter_server.tables"


@pytest.fixture(scope="module")
def kept() -> list[Row]:
    """Return the rows behind the page."""
    return read_rows(RUNS)


def test_the_page_shows_what_its_rows_say(kept: list[Row]) -> None:
    """The page agrees with its rows, and shows every table."""
    text, tables = PAGE.read_text(encoding="utf-8"), Tables(kept)

    assert text == rewritten(text, tables), f"{PAGE} and {RUNS} disagree: run {MADE_AGAIN}"
    assert sorted(tables.names()) == sorted(match["name"] for match in MARKED.finditer(text))


def test_a_change_of_the_rows_changes_the_page(kept: list[Row]) -> None:
    """The comparison sees one way that is a tenth faster."""
    text = PAGE.read_text(encoding="utf-8")
    for way in {row.way for row in kept}:
        moved = [replace(r, examples_per_s=1.1 * r.examples_per_s) if r.way == way else r for r in kept]

        assert text != rewritten(text, Tables(moved)), way


def test_every_table_of_a_whole_run_is_there() -> None:
    """Equal steps make ratios of one, and the bytes are those of the made-up trials."""
    tables = Tables(rows())

    assert "| 3 | busy (load average 2.0) | one host, 1 Gbit/s, 100 Mbit/s |" in tables.table("extent")
    assert "| synchronous, 1 server | 2.00 MB, server | 4.00 MB, server | 8.00 MB, server |" in tables.table("bytes")
    assert "| ringtune | 1.00 MB, worker | 1.00 MB, worker | 1.00 MB, worker |" in tables.table("bytes")
    assert "1.00 (1.00 to 1.00)" in tables.table("link")
    for name in tables.names():
        assert "nan" not in tables.table(name)


def test_a_part_of_a_run_has_the_tables_that_it_fills() -> None:
    """One place with 2 workers has its rates and no comparison of places."""
    part = [row for row in rows() if row.place == "100mbit" and row.workers == 2]

    assert ["extent", "rates, 100 Mbit"] == Tables(part).names()


def test_ratios_are_taken_inside_rounds() -> None:
    """A machine that is slower in some rounds changes no ratio."""
    drifting = [replace(row, examples_per_s=row.examples_per_s / (1 + row.number)) for row in rows()]

    slowed = Claims(drifting).slowed(Cell(DDP, 0, 4, "1gbit"))
    against = Claims(drifting).step_ratio(Cell(SYNC, 1, 8, "1gbit"), Cell(DDP, 0, 8, "1gbit"))

    assert [(1.0, 1.0, 1.0, ROUNDS)] * 2 == [
        tuple(round(value, 9) for value in (ratio.mean, ratio.low, ratio.high, ratio.pairs))
        for ratio in (slowed, against)
    ]


def test_an_interval_is_that_of_students_t_on_logarithms() -> None:
    """Ratios of 1, 2 and 4: the mean is 2, and the margin 4.303 ln 2 / √3."""
    ratio = ratio_of([1.0, 2.0, 4.0], [1.0, 1.0, 1.0])

    assert pytest.approx(2.0) == ratio.mean
    assert pytest.approx(2.0 * 2.0 ** (4.3027 / 3**0.5), rel=1e-4) == ratio.high
    assert pytest.approx(2.0 * 2.0 ** -(4.3027 / 3**0.5), rel=1e-4) == ratio.low


def test_two_rounds_have_no_interval() -> None:
    """An interval of two values would span everything."""
    assert "2.00" == str(ratio_of([2.0, 2.0], [1.0, 1.0]))
    with pytest.raises(ValueError, match="no round that has both"):
        ratio_of([], [])


def test_losses_are_compared_after_equally_many_gradients() -> None:
    """The way that has applied more is looked at where the other ended."""
    curve = ((0.0, 0, 2.0), (1.0, 100, 1.0), (1.5, 200, 0.5))
    one = next(row for row in rows() if (row.way, row.servers, row.slowdown) == (ASYNC, 1, SLOWDOWN))
    other = replace(one, way=SYNC, curve=curve[:2])
    cells = [Cell(way, 1, one.workers, one.place, SLOWDOWN) for way in (ASYNC, SYNC)]

    claims = Claims([replace(one, curve=curve), other])

    assert pytest.approx(1.0) == claims.loss_at_equal_gradients(*cells).mean
    assert pytest.approx(0.5) == claims.loss_at_equal_time(*cells).mean
