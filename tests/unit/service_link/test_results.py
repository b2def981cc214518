# SPDX-License-Identifier: Apache-2.0
"""Tests of a run's reports: the same ids whenever they are made, the baseline marked, later runs left out."""

import uuid
from dataclasses import replace

import pytest

from ringtune.tuner import Phase, Value
from ringtune.tuner.logs.reader import RunLog
from ringtune.tuner.logs.records import AdoptionRecord, ResultRecord, RunRecord, SampleRecord
from ringtune.tuning.service_link.results import MAX_TENSORS, Results, is_later_run, job_uuid, study_of, trial_uuid

BASELINE: dict[str, Value] = {"cycle_ms": 1.0}
CHALLENGER: dict[str, Value] = {"cycle_ms": 2.0}
RUN = RunRecord(0.0, "r", 1, 0.0, "m", {"model": "x"}, {}, {}, {"parameters": []}, {}, BASELINE, 0, {})
TIMES = {"median": 10.0, "mad": 0.1, "mean": 10.1}
SAMPLE = SampleRecord(0.0, "r", 1, 7, "search", 1, CHALLENGER, 1e6, TIMES, 10, valid=True, reason=None)
ADOPTION = AdoptionRecord(0.0, "r", [{}, {}], 0.1, 0.05, 0.15, "adopted")
RESULT = ResultRecord(0.0, "r", CHALLENGER, True, 0.1, 1.0, 10)


def test_ids_are_uuids_that_follow_from_run_and_window() -> None:
    """A result that is sent twice is stored once, for its id follows from run and window."""
    run_id = uuid.uuid4()

    assert str(run_id) == job_uuid(run_id.hex)
    assert str(uuid.UUID(job_uuid("any name"))) == job_uuid("any name")
    assert trial_uuid("r", 1) == trial_uuid("r", 1)
    assert 4 == len({trial_uuid(run, window) for run in "rs" for window in (1, 2)})


@pytest.mark.parametrize(
    ("phase", "config", "told"),
    [
        ("search", CHALLENGER, "search"),
        ("search", BASELINE, "baseline"),
        ("adoption", BASELINE, "baseline"),
        ("warmup", BASELINE, "warmup"),
    ],
)
def test_what_was_measured_under_the_baseline_marks_it(phase: str, config: dict[str, Value], told: str) -> None:
    """A sample under the baseline is marked in any phase, but not before step times were stable."""
    result = Results(RUN).take(replace(SAMPLE, phase=phase, config=config))

    assert result is not None
    assert told == result["phase"]


def test_times_that_do_not_exist_are_told_as_null() -> None:
    """A void window's times, and one of zero, which has no logarithm, become null."""
    void = replace(SAMPLE, step_ms={**TIMES, "median": 0.0}, valid=False, reason="invalid_score")

    result = Results(RUN).take(void)

    assert result is not None
    assert {"median": None, "mad": None, "mean": None} == result["step_ms"]


def test_the_adoption_test_is_told_with_the_last_valid_window_of_the_challenger() -> None:
    """One more result; none where there was no test, or no interval."""
    results = Results(RUN)
    results.take(replace(SAMPLE, phase="adoption", window=8))
    results.take(replace(SAMPLE, phase="adoption", window=9, valid=False, reason="pause"))
    results.take(replace(SAMPLE, phase="adoption", window=10, config=BASELINE))

    report = results.take(ADOPTION)

    assert report is not None
    figures = {"speedup": 0.1, "ci_low": 0.05, "ci_high": 0.15, "pairs": 2, "ci_level": ADOPTION.ci_level}
    assert figures == report["adoption"]
    assert (CHALLENGER, trial_uuid("r", -1)) == (report["config"], report["trial_id"])
    assert results.take(replace(ADOPTION, speedup=None)) is None
    assert results.take(replace(ADOPTION, pairs=[{}])) is None
    assert Results(RUN).take(ADOPTION) is None


def test_the_watch_and_the_result_are_not_told() -> None:
    """The watch goes on for as long as the job, and the result is no measurement."""
    assert Results(RUN).take(replace(SAMPLE, phase=Phase.WATCH.value)) is None
    assert Results(RUN).take(RESULT) is None


def test_gradients_are_told_where_they_are_known_and_not_too_many() -> None:
    """The service takes so many."""
    assert [4, 8] == study_of(RUN, [4, 8])["gradient_bytes"]
    assert "gradient_bytes" not in study_of(RUN)
    assert "gradient_bytes" not in study_of(RUN, [4] * (MAX_TENSORS + 1))


def test_a_check_and_a_search_from_what_is_in_force_are_later_runs() -> None:
    """A run that searches from a baseline of its own with a whole budget is a job's first."""
    first = RunLog("a", RUN, samples=[SAMPLE], result=RESULT)
    check = RunLog("b", RUN, samples=[replace(SAMPLE, phase="adoption")], result=RESULT)
    search = RunLog("c", replace(RUN, baseline=CHALLENGER), samples=[SAMPLE], result=RESULT)
    budget = replace(RUN, steps_budget={"max_samples": 20})
    again = RunLog("e", replace(RUN, steps_budget={"max_samples": 10}), samples=[SAMPLE], result=RESULT)
    elsewhere = RunLog("f", replace(RUN, baseline={"fusion_bytes": 1}), samples=[SAMPLE], result=RESULT)
    unfinished = RunLog("d", RUN, samples=[SAMPLE])

    assert not is_later_run(first, None)
    assert not is_later_run(first, first)
    assert is_later_run(check, first)
    assert is_later_run(search, first)
    assert not is_later_run(search, unfinished)
    assert is_later_run(again, replace(first, run=budget))
    assert not is_later_run(replace(first, run=budget), replace(first, run=budget))
    assert not is_later_run(elsewhere, first)
