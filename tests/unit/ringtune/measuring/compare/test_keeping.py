# SPDX-License-Identifier: Apache-2.0
"""The file of comparisons: bounded, replaced as a whole, never a reason to fail; and how doctor shows it."""

import json
import os
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from ringtune.commands.findings.comparisons import examine_comparisons
from ringtune.measuring.compare.keeping import MAX_ENTRIES, ComparisonStore, KeptComparison

ENTRY = KeptComparison(1000.0, "aa", "train.py", 2, "", 6, 10.0, 12.5, 1.25, 1.125, 1.375, "0.2.0")


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """The environment of a user with an empty cache folder."""
    return {"XDG_CACHE_HOME": str(tmp_path)}


def test_the_newest_are_kept(environ: dict[str, str]) -> None:
    """The newest records fill the limit, the newest first; all other files are removed."""
    store = ComparisonStore(environ)
    for number in range(MAX_ENTRIES + 5):
        store.keep(replace(ENTRY, unix_time_s=float(number)))

    assert [float(n) for n in range(MAX_ENTRIES + 4, 4, -1)] == [entry.unix_time_s for entry in store.entries()]
    assert [store.path] == list(store.path.parent.iterdir())


@pytest.mark.parametrize("text", ["", "{", "[1, null, {}]", '{"a": 1}', "[" * 100_000, "\x00"])
def test_a_damaged_file_is_empty_and_is_replaced(environ: dict[str, str], text: str) -> None:
    """A comparison that took minutes is not lost to it."""
    store = ComparisonStore(environ)
    store.path.parent.mkdir()
    store.path.write_text(text, encoding="utf-8")

    assert [] == store.entries()
    store.keep(ENTRY)
    assert [ENTRY] == store.entries()


def test_entries_of_wrong_types_are_left_out(environ: dict[str, str]) -> None:
    """An entry of a wrong type would fail where it is shown."""
    store = ComparisonStore(environ)
    store.path.parent.mkdir()
    wrong = [{**asdict(ENTRY), "ratio": "much"}, {**asdict(ENTRY), "title": None}, {**asdict(ENTRY), "new": 1}]
    store.path.write_text(json.dumps([*wrong, asdict(ENTRY)]), encoding="utf-8")

    assert [ENTRY] == store.entries()


def test_a_pipe_in_its_place_is_not_waited_for(environ: dict[str, str]) -> None:
    """A pipe put there by a stranger has no writer."""
    store = ComparisonStore(environ)
    store.path.parent.mkdir()
    os.mkfifo(store.path)

    assert [] == store.entries()


def test_doctor_shows_this_machine_s_and_else_how_to_compare(environ: dict[str, str]) -> None:
    """Another machine's result, in a shared home, does not hold for this one."""
    before = examine_comparisons(environ, "aa").findings
    ComparisonStore(environ).keep(ENTRY)
    mine, other = (examine_comparisons(environ, hardware).findings for hardware in ("aa", "bb"))

    assert before == other
    assert "ringtune compare -np N SCRIPT" in before[0][1]
    ((title, text),) = mine
    assert "train.py" == title
    assert "ringtune / DDP 1.25 (90% interval 1.12 to 1.38), 12.5 and 10 steps/s, 2 ranks, 6 pairs" in text
