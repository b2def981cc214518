# SPDX-License-Identifier: Apache-2.0
"""Tests of reading logs, whoever wrote them."""

from pathlib import Path

import pytest

from ringtune.tuner.review import review_log
from ringtune.tuner.space.parameters import MIB
from tests.unit.tuner.review.logs import BAGUA, HOROVOD, horovod_logs, logged, reviewed


def test_horovods_choice_is_the_row_it_does_not_mark(tmp_path: Path) -> None:
    """The last row repeats the best one: it is the choice and no sample, in our names and units."""
    run = reviewed(tmp_path / "h.csv", HOROVOD)

    assert 6 == len(run.tried)
    assert (True, "horovod") == (run.is_complete, run.source)
    assert run.chosen is not None
    assert (5.103, round(4.04949 * MIB), True) == tuple(
        run.chosen[name] for name in ("cycle_ms", "fusion_bytes", "response_cache")
    )
    assert "line 6, the highest single score, 538 MB/s" in run.verdict
    assert "nobody knows whether it helped" in run.verdict


def test_a_search_of_horovods_that_did_not_end_is_called_so(tmp_path: Path) -> None:
    """Without the repeated row no config was chosen, but the best so far is named."""
    run = reviewed(tmp_path / "h.csv", HOROVOD.rsplit("\n", 2)[0] + "\n")

    assert (False, 6) == (run.is_complete, len(run.tried))
    assert "the closing row is missing" in run.verdict
    assert run.chosen == run.tried[4].config


def test_columns_are_found_by_name(tmp_path: Path) -> None:
    """Older versions lack a column and name another one differently; a comment is none; unknown columns are kept."""
    header = "cache_enabled,cycle_time_ms,tensor_fusion_threshold_mb,streams,score"
    text = f"# from 2020\n{header}\n0,5,4,2,345.0\n1,50,32,1,277\n"

    run = reviewed(tmp_path / "h.csv", text)

    assert {"response_cache": False, "cycle_ms": 5.0, "fusion_bytes": 4 * MIB, "streams": 2.0} == run.tried[0].config
    assert 345e6 == run.tried[0].score_bytes_per_s


def test_bagua_is_read_in_its_units(tmp_path: Path) -> None:
    """Buckets are powers of two, the score gigabytes per second, and the first row's score is minus infinity."""
    run = reviewed(tmp_path / "bagua_autotune.log", BAGUA)

    assert ("bagua", False, "invalid_score") == (run.source, run.tried[0].valid, run.tried[0].reason)
    assert {"bucket_bytes": 2**27, "hierarchical_reduce": True} == run.tried[2].config == run.chosen
    assert 1.75e9 == run.tried[2].score_bytes_per_s


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("0,0,0, 1,5", "5 values, the header has 7; perhaps torn by a kill"),
        ("0,0,2, 1,5,4,300", "torus_allreduce='2' is not possible"),
        ("0,0,0, 1,fast,4,300", "cycle_time_ms='fast' is not possible"),
        ("0,0,0, 1,-5,4,300", "cycle_time_ms='-5' is not possible"),
        ("0,0,0, 1,5,inf,300", "tensor_fusion_threshold='inf' is not possible"),
    ],
)
def test_a_bad_row_is_named_by_line_and_the_rest_is_read(tmp_path: Path, row: str, reason: str) -> None:
    """The number of the line, and its fault."""
    path = tmp_path / "h.csv"
    lines = HOROVOD.splitlines()
    path.write_text("\n".join([*lines[:3], row, *lines[3:]]) + "\n")

    review = review_log(path)

    assert [(4, reason)] == [(bad.number, bad.reason) for bad in review.bad_lines]
    assert 6 == len(review.runs[0].tried)


def test_logs_behind_each_other_are_runs(tmp_path: Path) -> None:
    """Every header begins one, and a line before the first is no row."""
    path = tmp_path / "h.csv"
    path.write_text("hello\n" + HOROVOD + HOROVOD)

    review = review_log(path)

    assert ["horovod-1", "horovod-2"] == [run.run_id for run in review.runs]
    assert [1] == [bad.number for bad in review.bad_lines]


def test_a_header_alone_says_why(tmp_path: Path) -> None:
    """Horovod writes its first row after fifty steps."""
    path = tmp_path / "h.csv"
    path.write_text(HOROVOD.splitlines()[0] + "\n")

    review = review_log(path)

    assert () == review.runs
    assert "a header without rows" in review.bad_lines[0].reason


def test_our_own_csv_is_read(tmp_path: Path) -> None:
    """A .csv of AUTOTUNE_LOG has Horovod's columns."""
    outcome = logged(tmp_path / "ours.csv", max_samples=5)

    (run,) = review_log(tmp_path / "ours.csv").runs

    tried = [config for config in outcome.target.applied if config != outcome.target.baseline()]
    assert tried[0]["fusion_bytes"] in {sample.config["fusion_bytes"] for sample in run.tried}


def test_real_logs_of_horovod_are_read_to_the_last_line() -> None:
    """All that were measured end in their closing row; the one from 2020 does not."""
    for path in horovod_logs():
        review = review_log(path)

        assert (1, 0) == (len(review.runs), review.bad_line_count), path
        run = review.runs[0]
        assert run.is_complete == (path.name != "issue1745.csv"), path
        assert len(run.tried) == (21 if run.is_complete else 7), path
        assert run.chosen in [sample.config for sample in run.tried], path
