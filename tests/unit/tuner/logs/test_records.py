# SPDX-License-Identifier: Apache-2.0
"""Tests of the log's records and their schema."""

import json
import math
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from ringtune.tuner import Phase, RunSettings, Sample, StepTimes, VoidReason, default_config, open_log
from ringtune.tuner.logs.records import (
    RECORD_TYPES,
    AdoptionRecord,
    RecordError,
    record_from_json,
    record_to_json,
    sample_record,
)
from ringtune.tuner.logs.schema import json_schema
from ringtune.tuner.testing import Disturbances, SyntheticTarget, poor_baseline
from tests.unit.tuner.recording import tune

VALIDATOR = jsonschema.Draft202012Validator(json_schema())


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Return the objects of a full run's log, void windows included, and of one whose job ended first."""
    path: Path = tmp_path_factory.mktemp("log") / "tuning.jsonl"
    void = {VoidReason.INVALID_SCORE: 0.1, VoidReason.PAUSE: 0.1}
    target = SyntheticTarget(baseline=poor_baseline(), disturbances=Disturbances(void=void), seed=1)
    settings = RunSettings(key={"model": "m"}, model_name="digits", layout={"host": 2}, versions={"ringtune": "0.1"})
    log = open_log(path)
    tune(target, settings=settings, log=log)
    tune(SyntheticTarget(disturbances=Disturbances(closes_after_windows=3)), settings=settings, log=log)
    log.close()
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_full_runs_log_conforms_to_the_schema(lines: list[dict[str, Any]]) -> None:
    """Every line is one of the record types, and each type occurs."""
    assert [] == [error.message for line in lines for error in VALIDATOR.iter_errors(line)]
    assert set(RECORD_TYPES) == {line["type"] for line in lines}


def test_the_records_have_exactly_the_contracts_keys(lines: list[dict[str, Any]]) -> None:
    """No key is missing and none is there unasked: others read this log."""
    common = {"type", "t_s", "run_id"}
    expected = {
        "run": "schema unix_time_s model_name key layout versions search_space fixed baseline seed steps_budget",
        "sample": "trial_id window phase epoch config score_bytes_per_s step_ms steps valid reason",
        "suggestion": "trial_id config designer expected_score expected_std ask_ms",
        "adoption": "pairs speedup ci_low ci_high verdict ci_level",
        "result": "config adopted speedup cost_s payback_steps",
        "end": "verdict",
    }

    assert {(line["type"], frozenset(line)) for line in lines} == {
        (name, frozenset(common | set(keys.split()))) for name, keys in expected.items()
    }
    assert {"median", "mad", "mean"} == set(next(line["step_ms"] for line in lines if line["type"] == "sample"))


def test_every_line_is_read_back_as_it_was(lines: list[dict[str, Any]]) -> None:
    """Records survive the way through JSON."""
    assert lines == [record_to_json(record_from_json(line)) for line in lines]


def test_a_run_says_what_people_call_it(lines: list[dict[str, Any]]) -> None:
    """A run has its name, tags, commit and machines; a log without them is read and written as before."""
    plain = next(line for line in lines if line["type"] == "run")
    machines = [{"hosts": 2, "cpu_model": "EPYC", "cores": 64}]
    labels = {
        "job_name": "first",
        "tags": ["a", "b"],
        "commit": "9fceb02",
        "hardware_name": "lab",
        "machines": machines,
    }
    named = {**plain, **labels}

    assert (None, None) == (record_from_json(plain).job_name, record_from_json(plain).tags)  # type: ignore[union-attr]
    for line in (plain, named):
        assert line == record_to_json(record_from_json(line))
        VALIDATOR.validate(line)
    wrongs: list[dict[str, Any]] = [{"tags": "a"}, {"tags": [1]}, {"machines": {}}, {"commit": 3}]
    for wrong in wrongs:
        with pytest.raises(RecordError, match=next(iter(wrong))):
            record_from_json({**plain, **wrong})


def test_numbers_that_json_cannot_write_become_null() -> None:
    """An invalid sample's NaN is no word of JSON."""
    sample = Sample(
        1, default_config(), Phase.SEARCH, 1, math.inf, StepTimes.of((math.nan,)), 1, VoidReason.INVALID_SCORE
    )

    data = record_to_json(sample_record(sample, t_s=0.0, run_id="r", window=0))

    assert (None, {"median": None, "mad": None, "mean": None}) == (data["score_bytes_per_s"], data["step_ms"])
    assert json.dumps(data, allow_nan=False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"type": "trial"}, "unknown record type 'trial'"),
        ({"type": ["sample"]}, "unknown record type"),
        ({"phase": "lunch"}, "a sample record with phase='lunch'"),
        ({"reason": "tired"}, "a sample record with reason='tired'"),
        ({"trial_id": "1"}, "a sample record with trial_id='1'"),
        ({"trial_id": True}, "a sample record with trial_id='True'"),
        ({"score_bytes_per_s": math.nan}, "score_bytes_per_s"),
        ({"config": {"fusion_bytes": [1]}}, "a sample record with config="),
        ({"step_ms": {"median": 1.0}}, "a sample record with step_ms="),
        ({"valid": 1}, "valid='1'"),
        ({"step_ms": {"median": 1.0, "mad": 1e300, "mean": 1.0}}, "a sample record with step_ms="),
        ({"step_ms": {"median": 10**15, "mad": 0, "mean": 1.0}}, "a sample record with step_ms="),
        ({"step_ms": {"median": True, "mad": 0.0, "mean": 1.0}}, "a sample record with step_ms="),
        pytest.param({"t_s": 10**400}, "t_s='1000", id="a time that no float can hold"),
        pytest.param({"config": {"fusion_bytes": 10**400}}, "config=", id="a size that no float can hold"),
    ],
)
def test_what_is_no_record_is_refused(lines: list[dict[str, Any]], change: dict[str, Any], message: str) -> None:
    """Wrong types, unknown words and numbers that are none are named."""
    sample = next(line for line in lines if line["type"] == "sample")

    with pytest.raises(RecordError, match=message):
        record_from_json({**sample, **change})


@pytest.mark.parametrize("data", [None, 3, [], "run", {}])
def test_foreign_json_is_refused(data: object) -> None:
    """Not every JSON value is a record."""
    with pytest.raises(RecordError):
        record_from_json(data)


def test_a_missing_key_is_named(lines: list[dict[str, Any]]) -> None:
    """The message says which."""
    result = next(line for line in lines if line["type"] == "result")
    with pytest.raises(RecordError, match="a result record without 'cost_s'"):
        record_from_json({key: value for key, value in result.items() if key != "cost_s"})


def test_an_old_log_s_interval_has_the_level_it_had(lines: list[dict[str, Any]]) -> None:
    """Logs from before the level was written have intervals of 95 %; new ones say 90 %."""
    new = next(line for line in lines if line["type"] == "adoption")
    old = {key: value for key, value in new.items() if key != "ci_level"}

    read = [record_from_json(line) for line in (new, old)]

    assert [] == [error.message for error in VALIDATOR.iter_errors(old)]
    assert [0.9, 0.95] == [record.ci_level for record in read if isinstance(record, AdoptionRecord)]


@pytest.mark.parametrize("level", [0, 1, 1.5, -0.9, "0.9", True, None, math.nan])
def test_a_level_that_is_none_is_refused(lines: list[dict[str, Any]], level: object) -> None:
    """A level is a fraction between 0 and 1."""
    adoption = next(line for line in lines if line["type"] == "adoption")

    with pytest.raises(RecordError, match="an adoption record with ci_level="):
        record_from_json({**adoption, "ci_level": level})


def test_keys_of_later_versions_are_ignored(lines: list[dict[str, Any]]) -> None:
    """A newer writer may say more."""
    assert record_from_json(lines[-1]) == record_from_json({**lines[-1], "mood": "good"})
