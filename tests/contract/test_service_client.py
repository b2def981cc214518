# SPDX-License-Identifier: Apache-2.0
"""The client's bodies and replies are those of the REST interface's models, as the service has them."""

import json
from typing import Any

import pytest
from pydantic import BaseModel

from ringtune import client
from ringtune.client.replies import read_reply
from ringtune.service.api.v1.results import to_result
from ringtune.service.domain.run_logs import Reporting, _results, collect_runs
from ringtune.shared_service import rest_models
from ringtune.tuner import default_config, search_space
from ringtune.tuner.logs.records import Record, record_to_json
from ringtune.tuning.service_link.results import Results, job_uuid, study_of
from tests.integration.service_link.jobs import run_record, tuned_records
from tests.integration.service_link.servers import recommendation_reply, study_reply

KEY = {"hardware": "aa" * 32, "model": "bb" * 32, "layout": [2, 2], "target": "ringtune", "surface_version": 1}
CONFIG = {"fusion_bytes": 0, "cycle_ms": 0.5, "response_cache": True, "chunk_bytes": "auto"}
TRIAL, JOB = "6f1c2d1e-8a50-4c0e-9d2b-0a3f5b7c9d11", "0b9f7c52-3f63-4a39-8a8e-5b0a2f4f0d10"
LEASE = {"fencing_token": 3, "expires_in_s": 60.0}
TOKEN = {"id": "0" * 16, "name": "ci", "scopes": ["read"], "age_s": 1.0, "is_revoked": False}
STORED_RUN = {"run_id": "r", "study_id": None, "new": 1, "same": 2, "quarantined": 3, "reason": None}
EXAMPLES: dict[str, dict[str, Any]] = {
    "Recommendation": {
        **recommendation_reply(CONFIG),
        "key": KEY,
        "distance": 0.0,
        "reason": "why",
        "candidates": [{"model_fingerprint": "bb" * 32, "model_name": None, "trials": 2}],
    },
    "Study": study_reply({"key": KEY, "search_space": rest_models.studies.EXAMPLE_SPACE}),
    "StudyPage": {"items": [], "next_cursor": None},
    "Suggestion": {"trial_id": TRIAL, "config": CONFIG, "designer": "gp", "lease": LEASE},
    "StoredBatch": {"items": [{"trial_id": TRIAL, "status": "new", "reason": None}]},
    "StoredResult": {"trial_id": TRIAL, "status": "quarantined", "reason": "why"},
    "StoredRuns": {"runs": [STORED_RUN]},
    "Imported": {"studies": 1, "results": 2, "same": 3},
    "CreatedToken": {**TOKEN, "secret": "rt_x"},
    "TokenPage": {"items": [TOKEN], "next_cursor": None},
}


def results_of(records: tuple[Record, ...]) -> list[dict[str, Any]]:
    """Return the results that a job reports for a log."""
    results = Results(run_record())
    return [dict(result) for record in records if (result := results.take(record)) is not None]


def as_sent(body: object) -> Any:
    """Return a body as it comes out of the wire."""
    return json.loads(json.dumps(body))


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_reply_is_read_as_it_was_sent(name: str) -> None:
    """The client's value is equal to the service's, with nothing left out."""
    model: type[BaseModel] = getattr(client, name)
    sent = model.model_validate(EXAMPLES[name])

    assert sent == read_reply(model, as_sent(sent.model_dump(mode="json")))


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_newer_service_may_send_more(name: str) -> None:
    """Fields that are not known are ignored, in the parts of a reply too."""
    model: type[BaseModel] = getattr(client, name)

    assert model.model_validate(EXAMPLES[name]) == read_reply(model, with_more(EXAMPLES[name]))


@pytest.mark.parametrize(
    ("kind", "reply"),
    [
        (client.Recommendation, {**EXAMPLES["Recommendation"], "source": "similar", "standing": "tentative"}),
        (client.StoredResult, {**EXAMPLES["StoredResult"], "status": "postponed"}),
        (client.CreatedToken, {**EXAMPLES["CreatedToken"], "scopes": ["read", "audit"]}),
        (client.Study, {**EXAMPLES["Study"], "search_space": {"parameters": [{"kind": "ordinal"}]}}),
    ],
    ids=lambda part: getattr(part, "__name__", ""),
)
def test_a_newer_service_may_know_more_words(kind: type[BaseModel], reply: dict[str, Any]) -> None:
    """A source, a status, a scope or a kind of parameter that this version does not know breaks no reply."""
    assert reply == read_reply(kind, reply).model_dump(mode="json", exclude_unset=True)


@pytest.mark.parametrize(
    ("kind", "missing"),
    [
        (client.Recommendation, {"standing", "key", "distance", "reason", "candidates"}),
        (client.Evidence, {"reporters", "adopted", "opposed", "trusted_jobs", "ci_level", "baseline"}),
        (client.Token, {"has_many_jobs"}),
        (client.StudyPage, {"next_cursor"}),
    ],
    ids=lambda part: getattr(part, "__name__", ""),
)
def test_an_older_service_may_send_less(kind: type[BaseModel], missing: set[str]) -> None:
    """Fields that came after version 0.1 have a default."""
    whole = {**EXAMPLES, "Evidence": EXAMPLES["Recommendation"]["evidence"], "Token": TOKEN}[kind.__name__]

    read_reply(kind, {name: value for name, value in whole.items() if name not in missing})


def with_more(value: Any) -> Any:
    """Return a reply with one more field in each of its objects but configs and search spaces."""
    if isinstance(value, list):
        return [with_more(item) for item in value]
    if not isinstance(value, dict):
        return value
    whole = {"config", "baseline", "search_space"}
    return {"new_field": 1, **{name: item if name in whole else with_more(item) for name, item in value.items()}}


def test_every_result_of_a_run_is_accepted() -> None:
    """A whole run with warmup, search and adoption, as a batch and one by one."""
    results = results_of(tuned_records())

    batch = rest_models.ResultBatch.model_validate(as_sent({"results": results}))

    assert len(results) == len(batch.results)
    assert {"warmup", "baseline", "search", "adoption"} == {result["phase"] for result in results}
    assert 1 == sum(result.adoption is not None for result in batch.results)
    for result in results:
        rest_models.Result.model_validate(as_sent({k: v for k, v in result.items() if k != "trial_id"}))


def test_a_log_that_is_pushed_says_what_its_job_has_reported() -> None:
    """The service takes a whole log apart into the same results, under the same ids: it counts nothing twice."""
    (log,) = collect_runs([record_to_json(record) for record in tuned_records()])
    assert log.run is not None
    pushed = dict(_results(log, log.run, Reporting(job_uuid(log.run_id), is_named=True, token_id=None)))

    batch = rest_models.ResultBatch.model_validate(as_sent({"results": results_of(tuned_records())}))

    assert pushed == {item.trial_id: to_result(item, None) for item in batch.results}


@pytest.mark.parametrize("gradient_bytes", [(), (1024, 4096)])
def test_the_study_of_a_run_is_accepted(gradient_bytes: tuple[int, ...]) -> None:
    """A study is accepted with and without the sizes of its gradients."""
    rest_models.NewStudy.model_validate(as_sent(study_of(run_record(), gradient_bytes)))


def test_a_log_is_accepted_as_it_is_pushed() -> None:
    """Whole records, and the job's id."""
    body = {"records": [record_to_json(record) for record in tuned_records()], "job_id": job_uuid("any name")}

    rest_models.TuningLog.model_validate(as_sent(body))


def test_the_other_bodies_are_accepted() -> None:
    """Ask, renew, token."""
    rest_models.Ask.model_validate({"trial_id": TRIAL, "job_id": JOB})
    rest_models.Ask.model_validate({"trial_id": TRIAL, "job_id": JOB, "lease_s": 60.0})
    own = as_sent(
        search_space({"response_cache": False}, default_config().replace({"response_cache": False})).to_json()
    )
    rest_models.Ask.model_validate({"trial_id": TRIAL, "job_id": JOB, "search_space": own})
    rest_models.Renewal.model_validate({"job_id": JOB, "fencing_token": 3, "lease_s": 60.0})
    rest_models.NewToken.model_validate({"name": "ci", "scopes": ["read", "report"]})
