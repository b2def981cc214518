# SPDX-License-Identifier: Apache-2.0
"""The printed tables are those that their raw rows make, and these began at the default that ships."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.tuner.regret.problems import Sources, all_problems
from benchmarks.tuner.regret.report import WORSE
from benchmarks.tuner.regret.rows import (
    CONTROL,
    FOLDER,
    RING_CONTROL,
    RING_RUNS,
    RUNS,
    Row,
    read_rows,
    write_rows,
)
from benchmarks.tuner.regret.tables import (
    BEFORE,
    MARKED,
    NAMES,
    OURS,
    PAGES,
    UNSET,
    Tables,
    counting,
    kept_tables,
    rewritten,
    standard_error,
)
from ringtune.tuner.space.parameters import with_later_knobs

MOST_BYTES = 1_000_000
MADE_AGAIN = "python -m benchmarks.tuner.regret.tables"


@pytest.fixture(scope="module")
def tables() -> Tables:
    """Return the tables of the rows that are kept."""
    return kept_tables()


def row(problem: str = "p", seed: int = 0, regret: float = 0.01, rival: str = "ringtune", **changes: object) -> Row:
    """Return a row of a run of 100 steps."""
    one = Row(problem, rival, seed, 100, regret, 0.0, -0.1, 0.0, True, 0, 0.0, "simulated", 0.03)
    return replace(one, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}/{page.name}")
def test_a_page_shows_what_its_rows_say(page: Path, tables: Tables) -> None:
    """A page agrees with its rows; a change of either has to make the other again."""
    text = page.read_text(encoding="utf-8")

    assert MARKED.search(text), f"{page} has no table of {FOLDER}"
    assert text == rewritten(text, tables), f"{page} and the rows of {FOLDER} disagree: run {MADE_AGAIN}"


@pytest.mark.parametrize("path", [RUNS, CONTROL, RING_RUNS, RING_CONTROL], ids=lambda path: path.name)
def test_rows_of_this_engine_began_at_the_default_that_ships(path: Path) -> None:
    """But for those of the flat ring: a change of `default_config()` makes the others old as well.

    A knob that a row lacks was at its default, and in no space.
    """
    problems = all_problems(Sources())
    began = {row.problem: with_later_knobs(json.loads(row.default)) for row in read_rows(path) if row.kind != "public"}
    today = {name for name, default in began.items() if with_later_knobs(problems[name].baseline) == default}

    stale = today if path in (RING_RUNS, RING_CONTROL) else set(began) - today
    assert set() == stale, f"{path.name} belongs to another default: measure again, or keep it apart"


def test_a_change_of_the_rows_changes_a_table(tables: Tables) -> None:
    """The comparison sees it where one rival's regret is moved by a point."""
    rows, control = read_rows(RUNS), read_rows(CONTROL)
    for rival in {row.rival for row in rows if row.rival in NAMES}:
        moved = [replace(row, regret=row.regret + 0.01) if row.rival == rival else row for row in rows]

        assert tables.table("regret, all") != Tables(moved, control).table("regret, all"), rival
        assert rival != OURS or tables.table("scatter, all") != Tables(moved, control).table("scatter, all")


def test_the_rows_are_small_and_hold_each_run_once() -> None:
    """A run counted twice would make errors too small."""
    rows = read_rows(RUNS)

    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < MOST_BYTES
    for of_one in (rows, read_rows(RING_RUNS)):
        assert len(of_one) == len({(row.problem, row.rival, row.seed, row.budget) for row in of_one})
    assert {"simulated", "drawn", "recorded", "public"} == {row.kind for row in rows}
    assert {UNSET, BEFORE, *NAMES} >= {row.rival for row in rows}


def test_no_decision_left_a_job_slower() -> None:
    """No decision of ringtune's, warm or cold, with a budget or without, left a job slower."""
    rows = [*read_rows(RUNS), *read_rows(RING_RUNS)]

    assert [] == [row for row in rows if row.rival.startswith("ringtune") and row.loss > WORSE]


def test_rows_are_read_as_they_were_written(tmp_path: Path) -> None:
    """In the order of problems, rivals and seeds, whatever the order was; the same rows are the same bytes."""
    rows = [row(seed=1, is_changed=False), row(steps=120, seconds=1.5), row("o", regret=0.12345)]
    paths = tmp_path / "a.csv.xz", tmp_path / "b.csv.xz"
    for path, ordered in zip(paths, (rows, rows[::-1]), strict=True):
        write_rows(path, ordered)

    assert [rows[2], rows[1], rows[0]] == read_rows(paths[0])
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_the_standard_error_is_that_over_seeds() -> None:
    """Problems are fixed: differences between them are no error, and each problem has the same weight."""
    rows = [row("p", 0, 0.1), row("p", 1, 0.3), row("q", 0, 0.5), row("q", 1, 0.5)]

    assert pytest.approx(0.1 / 2) == standard_error(rows)


def test_a_problem_counts_where_random_search_misses_in_half_of_its_runs() -> None:
    """Exactly half is enough; others are in no table of regret."""
    control = [row("p", 0, 0.03), row("p", 1, 0.01), row("q", 0, 0.01), row("q", 1, 0.01)]
    made = Tables([row("p", regret=0.05), row("q", regret=0.99)], control)

    assert {"p"} == counting(control)
    assert "| ringtune | 1 | 1 | 5.0 %, 0 % | | | |" == made.table("regret, simulated").splitlines()[-1]


def test_decisions_count_where_nothing_is_to_be_gained() -> None:
    """A change of knobs without effect is an error of the first kind; problems without a gain are in the table."""
    control = [row("q", 0, 0.01)]
    rows = [row("q", loss=0.02), row("aa_p"), row("aa_p", 1, is_changed=False)]

    assert (
        "| ringtune | 2 | 3 | 1 | +2.0 % | 1 of 2 | 0.90 |"
        == Tables(rows, control).table("safety, all").splitlines()[-1]
    )
