# SPDX-License-Identifier: Apache-2.0
"""Caches that cannot be read keep no rank from its start: named pipes in the place of files, and files that hang."""

import os
from pathlib import Path

from tests.integration.jobs import launched, ranks, run_job
from tests.integration.quick_tuning import UNTIL_DECIDED

LIMIT = {"RINGTUNE_TIMEOUT_S": "60", "RINGTUNE_ALGORITHM_TABLE": "auto"}


def replace_by_pipe(path: Path) -> None:
    """Put a named pipe, whose opening waits for a writer, in the place of a file."""
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def test_a_pipe_in_the_place_of_the_algorithm_table_is_told_and_measured_past(tmp_path: Path) -> None:
    """Rank 0 says which file it is, and the job runs."""
    variables = {**LIMIT, "XDG_CACHE_HOME": str(tmp_path)}
    assert 0 == run_job(ranks(2, "adds_up"), variables).code
    (table,) = (tmp_path / "ringtune" / "algorithm-tables").glob("*.json")
    replace_by_pipe(table)

    finished = run_job(ranks(2, "adds_up"), variables)

    assert 0 == finished.code, finished.text
    assert f"the algorithm table in {table} is measured anew" in finished.stderr
    assert "no regular file" in finished.stderr


def test_a_pipe_as_the_given_algorithm_table_is_an_error_on_all_ranks(tmp_path: Path) -> None:
    """A table that the user named cannot be left out: the error gives the reason."""
    replace_by_pipe(tmp_path / "table")

    finished = run_job(ranks(2, "adds_up"), {**LIMIT, "RINGTUNE_ALGORITHM_TABLE": str(tmp_path / "table")})

    assert 0 != finished.code, finished.text
    assert f"RINGTUNE_ALGORITHM_TABLE={tmp_path / 'table'} cannot be used" in finished.stderr
    assert "no regular file" in finished.stderr


def test_a_pipe_in_the_place_of_what_was_learned_is_told(tmp_path: Path) -> None:
    """The tuner begins without it, and the job trains."""
    cache = tmp_path / "studies.jsonl"
    replace_by_pipe(cache)
    variables = {"AUTOTUNE": "1", "AUTOTUNE_CACHE": str(cache), "AUTOTUNE_MAX_STEPS": "120", **LIMIT}

    finished = run_job(launched(2, "tuned", "6", UNTIL_DECIDED, "marked"), variables)

    assert 0 == finished.code, finished.text
    assert f"cannot be read from {cache} (no regular file)" in finished.stderr
