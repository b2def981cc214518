# SPDX-License-Identifier: Apache-2.0
"""Whole tuning logs, as the tuner writes them, on both databases."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from ringtune.service.domain import Service
from ringtune.service.domain.run_logs import trial_id_of
from ringtune.service.domain.values import StudyFilter
from ringtune.service.errors import InvalidRequest, RunConflict
from tests.integration.service_store.run_logs import log_of
from tests.unit.service.domain.reported import BETTER, KEY, OTHER, QUERY


def test_a_jobs_later_run_beside_another_baseline_is_no_test_of_its_first(service: Service) -> None:
    """A test beside another baseline is no evidence on the job's own; runs that are jobs stand alone."""
    first, later = log_of("run-1"), log_of("run-2")
    later[0]["baseline"] = OTHER.to_json()
    later[-2].update(speedup=0.9, ci_low=0.8, ci_high=1.0)

    stored = service.ledger.take_run([*first, *later], "job-1")

    assert [9, 8] == [item.new + item.quarantined for item in stored]
    service.ledger.take_run(log_of("run-3"))
    assert 0.2 == pytest.approx(service.recommendations.find(QUERY).evidence.speedup, abs=1e-3)


def test_a_log_becomes_results_and_evidence(service: Service) -> None:
    """Two jobs' logs confirm the config that both adopted; the paired tests are the evidence."""
    stored = service.ledger.take_run([*log_of("run-1"), {"type": "foreign"}, *log_of("run-2")])

    found = service.recommendations.find(QUERY)

    assert [("run-1", 9, 0, 0, None), ("run-2", 9, 0, 0, None)] == [
        (item.run_id, item.new, item.same, item.quarantined, item.reason) for item in stored
    ]
    assert (BETTER, False, 2) == (found.config, found.is_prior, found.evidence.jobs)
    assert 0.2 == pytest.approx(found.evidence.speedup, abs=1e-6)
    study = service.studies.get(str(stored[0].study_id))
    assert (KEY, "resnet50", 2) == (study.key, study.model_name, study.jobs)


def test_a_log_in_parts_and_again_is_stored_once(service: Service) -> None:
    """First while the job runs, then finished, then once more: each window is stored once."""
    pushes: Sequence[Sequence[Mapping[str, Any]]] = (
        log_of("run-1", is_finished=False),
        log_of("run-1"),
        log_of("run-1"),
    )

    stored = [service.ledger.take_run(records, job_id="job-1")[0] for records in pushes]

    assert [(8, 0), (1, 8), (0, 9)] == [(item.new, item.same) for item in stored]


def test_many_runs_of_one_job_are_one_job(service: Service) -> None:
    """However many run ids: without a second job the config stays a prior."""
    for number in range(5):
        service.ledger.take_run(log_of(f"run-{number}"), job_id="job-1")

    found = service.recommendations.find(QUERY)

    assert (BETTER, True, 1) == (found.config, found.is_prior, found.evidence.jobs)


def test_a_window_that_was_told_already_is_not_doubled(service: Service) -> None:
    """A log that was reported live may be pushed too, under its trial ids; another body is a conflict."""
    first = service.ledger.take_run(log_of("run-1"), job_id="job-1")[0]
    events = {event.trial_id for event in service.events.since(0)}

    other_job = service.ledger.take_run(log_of("run-1"), job_id="job-2")[0]

    assert {trial_id_of("run-1", window) for window in range(-1, 8)} == events
    assert 9 == first.new
    assert (0, 0) == (other_job.new, other_job.same)
    assert "not stored: 9 results" in str(other_job.reason)


def test_a_log_that_is_none_is_refused(service: Service) -> None:
    """No record that begins a run; a run that began otherwise; a run without its first line is left out."""
    service.ledger.take_run(log_of("run-1"))
    other_start = [{**log_of("run-1")[0], "seed": 1}]
    without_key = [{**log_of("run-3")[0], "key": {"model": "b" * 64}}]
    headless = log_of("run-2")[1:]

    with pytest.raises(InvalidRequest, match="no run"):
        service.ledger.take_run([{"type": "sample"}, *headless])
    with pytest.raises(RunConflict, match="run-1"):
        service.ledger.take_run(other_start)
    with pytest.raises(InvalidRequest, match="no key"):
        service.ledger.take_run(without_key)
    for name, value in (
        ("hardware", "my cluster"),
        ("model", "unknown"),
        ("target", "My Target"),
        ("surface_version", 0),
    ):
        odd = log_of("run-4")[0]
        with pytest.raises(InvalidRequest, match=name):
            service.ledger.take_run([{**odd, "key": {**odd["key"], name: value}}])
    kept, left_out = service.ledger.take_run([*log_of("run-1"), *headless])
    assert (9, None) == (kept.same, left_out.study_id)


@pytest.mark.parametrize("run_id", ["", "a\nb", "\x1b[2J", "x" * 300])
def test_a_run_id_that_cannot_be_sent_back_is_refused_whole(service: Service, run_id: str) -> None:
    """A record under such an id is left out, for its run cannot be in the log; a run under one is refused."""
    start, *_, end = log_of("run-1")

    stored = service.ledger.take_run([*log_of("run-1"), {**end, "run_id": run_id}])

    assert ["run-1"] == [run.run_id for run in stored]
    with pytest.raises(InvalidRequest, match="run_id"):
        service.ledger.take_run([{**start, "run_id": run_id}])


def test_a_jobs_later_log_beside_another_baseline_is_no_test_of_its_first(service: Service) -> None:
    """Pushed on its own too: the job's baseline is that which is stored."""
    first, later = log_of("run-1"), log_of("run-2")
    later[0]["baseline"] = OTHER.to_json()
    later[-2].update(speedup=0.9, ci_low=0.8, ci_high=1.0)

    stored = [service.ledger.take_run(records, "job-1")[0] for records in (first, later, first, later)]

    assert [(9, 0), (8, 0), (0, 9), (0, 8)] == [(item.new + item.quarantined, item.same) for item in stored]
    service.ledger.take_run(log_of("run-3"))
    assert 0.2 == pytest.approx(service.recommendations.find(QUERY).evidence.speedup, abs=1e-3)


@pytest.mark.parametrize("schema", [0, 2, 10**30])
def test_a_log_of_another_schema_is_refused_as_a_whole(service: Service, schema: int) -> None:
    """The refusal names both schemas, whether or not the records could be read as ours."""
    ours, theirs = log_of("ours"), log_of("theirs")
    theirs[0]["schema"] = schema
    unlike = [{"type": "run", "schema": schema, "run_id": "theirs", "began": "today"}]

    for records in ([*ours, *theirs], [*ours, *unlike]):
        with pytest.raises(InvalidRequest, match=rf"'theirs' is in a log of schema {str(schema)[:20]}.*schema 1"):
            service.ledger.take_run(records)
    assert () == service.studies.list(StudyFilter()).items
    assert 1 == len(service.ledger.take_run(ours))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("layout", [2.0]),
        ("layout", [True]),
        ("layout", "22"),
        ("layout", 2),
        ("surface_version", "1"),
        ("surface_version", 1.5),
        ("surface_version", True),
        ("surface_version", 10**400),
    ],
)
def test_a_key_that_only_looks_like_one_is_refused(service: Service, name: str, value: object) -> None:
    """A key that would be rounded is refused, since no job asks for the rounded one."""
    records = log_of("run-1")
    records[0]["key"] = {**records[0]["key"], name: value}

    with pytest.raises(InvalidRequest):
        service.ledger.take_run(records)
    assert () == service.studies.list(StudyFilter()).items
