# SPDX-License-Identifier: Apache-2.0
"""Tests of the review's data."""

import json
import re
from pathlib import Path

from ringtune.tuner import RunSettings
from ringtune.tuner.review import analyse, review_log, so_far, to_json
from ringtune.tuner.review.summary import UNFINISHED
from ringtune.tuner.statistics.paired_test import LEAST_PAIRS
from ringtune.tuner.testing import Disturbances, SyntheticTarget, poor_baseline
from tests.unit.tuner.review.logs import logged


def disturbed(disturbances: Disturbances) -> SyntheticTarget:
    """Return a target from the poor baseline where something goes wrong."""
    return SyntheticTarget(baseline=poor_baseline(), disturbances=disturbances, seed=1)


def test_a_finished_run_is_summed_up(tmp_path: Path) -> None:
    """The review agrees with the result."""
    result = logged(tmp_path / "x.jsonl", "a").result

    (run,) = review_log(tmp_path / "x.jsonl").runs

    assert (result.verdict, result.adopted, True) == (run.verdict, run.adopted, run.is_complete)
    assert (result.baseline, result.config) == (run.baseline, run.chosen)
    assert (result.speedup, result.ci_low, result.ci_high) == (run.speedup, run.ci_low, run.ci_high)
    assert run.pairs in range(LEAST_PAIRS, RunSettings().adoption_pairs)
    assert (result.cost_s, result.payback_steps) == (run.cost_s, run.payback_steps)
    assert 20 == len({sample.trial_id for sample in run.tried if sample.phase == "search"})


def test_watching_afterwards_is_no_part_of_the_run(tmp_path: Path) -> None:
    """Windows of the hours after the decision are free, and do not count for the trials."""
    path = tmp_path / "x.jsonl"
    logged(path)
    before = review_log(path).runs[0]
    records = [json.loads(line) for line in path.read_text().splitlines()]
    sample = next(record for record in records if record["type"] == "sample" and record["phase"] == "adoption")
    with path.open("a") as stream:
        stream.write(json.dumps(sample | {"phase": "watch", "t_s": 7200.0}) + "\n")

    after = review_log(path).runs[0]

    assert len(before.tried) + 1 == len(after.tried)
    assert (before.steps, before.seconds) == (after.steps, after.seconds)
    assert before.windows_of(before.baseline) == after.windows_of(before.baseline)


def test_an_unfinished_run_has_its_last_words(tmp_path: Path) -> None:
    """The run's last words are its verdict, and no config was chosen."""
    result = logged(tmp_path / "x.jsonl", target=disturbed(Disturbances(closes_after_windows=12))).result

    (run,) = review_log(tmp_path / "x.jsonl").runs

    assert (result.verdict, False, None) == (run.verdict, run.is_complete, run.chosen)
    assert result.verdict.startswith("unfinished: ")
    assert [] == so_far(run, analyse(run))


def test_a_killed_run_is_called_unfinished(tmp_path: Path) -> None:
    """Its log just ends: the review itself gives the best so far and the budget that a verdict would have needed."""
    path = tmp_path / "x.jsonl"
    logged(path, target=disturbed(Disturbances(closes_after_windows=16)), designer="gp")
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:-1]))

    (run,) = review_log(path).runs
    (sentence,) = so_far(run, analyse(run))

    assert re.fullmatch(
        r"Best so far: .*fusion_bytes .* \(was 0 \(off\)\).*; one window, not tested\. "
        r"A verdict would have needed about (\d more configs? and )?\d more pairs: \d+ steps or \d+ s in all\.",
        sentence,
    )

    assert (UNFINISHED, False, None) == (run.verdict, run.is_complete, run.chosen)
    assert run.tried


def test_the_review_is_plain_json(tmp_path: Path) -> None:
    """Configs and all."""
    logged(tmp_path / "x.jsonl", "a")
    review = review_log(tmp_path / "x.jsonl")

    data = json.loads(json.dumps(to_json(review), allow_nan=False))

    assert 0 == data["runs"][0]["baseline"]["fusion_bytes"]
    assert len(review.runs[0].tried) == len(data["runs"][0]["tried"])
    assert 20.0 == data["runs"][0]["tried"][0]["config"]["cycle_ms"]
    assert data["runs"][0]["settings"]
    assert {"fusion_bytes", "cycle_ms"} <= {item["name"] for item in data["runs"][0]["analysis"]["sensitivity"]}


def test_a_number_that_json_does_not_have_is_none(tmp_path: Path) -> None:
    """A damaged header may have one anywhere, and Python reads it."""
    logged(tmp_path / "x.jsonl", "a")
    head, *rest = (tmp_path / "x.jsonl").read_text().splitlines()
    torn = json.dumps({**json.loads(head), "search_space": {"parameters": [{"special": [float("nan")]}]}})
    (tmp_path / "x.jsonl").write_text("\n".join([torn, *rest]) + "\n")

    data = to_json(review_log(tmp_path / "x.jsonl"))

    assert [None] == data["runs"][0]["search_space"]["parameters"][0]["special"]
    assert json.dumps(data, allow_nan=False)
