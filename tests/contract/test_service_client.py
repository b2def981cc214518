# SPDX-License-Identifier: Apache-2.0
"""The client holds the service's schemas: what it sends they accept, what they promise it reads."""

import json
from dataclasses import fields, is_dataclass
from types import NoneType
from typing import Any, get_args, get_type_hints

import pytest
from pydantic import BaseModel

from ringtune.client import replies
from ringtune.client.json_values import from_json
from ringtune.service import schemas
from ringtune.service.api.v1.results import to_result
from ringtune.service.domain.run_logs import Reporting, _results, collect_runs
from ringtune.service_link.results import Results, job_uuid, study_of
from ringtune.tuner import default_config, search_space
from ringtune.tuner.logs.records import Record, record_to_json
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
    "Study": study_reply({"key": KEY, "search_space": schemas.studies.EXAMPLE_SPACE}),
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
def test_a_reply_of_the_schema_is_read(name: str) -> None:
    """Field by field, with nothing of the schema left out."""
    model: type[BaseModel] = getattr(schemas, name)
    sent = model.model_validate(EXAMPLES[name]).model_dump(mode="json")

    read = from_json(getattr(replies, name), sent)

    assert_same_fields(type(read), model)
    assert sent == as_sent(plain(read))


def plain(value: Any) -> Any:
    """Return a reply as JSON has it."""
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    return [plain(item) for item in value] if isinstance(value, tuple) else value


def assert_same_fields(kind: Any, model: type[BaseModel]) -> None:
    """Hold a reply's dataclass against its model, and the optional fields of both."""
    hints = get_type_hints(kind)
    assert set(model.model_fields) == set(hints)
    for name, field in model.model_fields.items():
        may_be_null = NoneType in get_args(field.annotation)
        assert may_be_null == (NoneType in get_args(hints[name])), f"{kind.__name__}.{name}"


def test_every_result_of_a_run_is_accepted() -> None:
    """A whole run with warmup, search and adoption, as a batch and one by one."""
    results = results_of(tuned_records())

    batch = schemas.ResultBatch.model_validate(as_sent({"results": results}))

    assert len(results) == len(batch.results)
    assert {"warmup", "baseline", "search", "adoption"} == {result["phase"] for result in results}
    assert 1 == sum(result.adoption is not None for result in batch.results)
    for result in results:
        schemas.Result.model_validate(as_sent({k: v for k, v in result.items() if k != "trial_id"}))


def test_a_log_that_is_pushed_says_what_its_job_has_reported() -> None:
    """The service takes a whole log apart into the same results, under the same ids: it counts nothing twice."""
    (log,) = collect_runs([record_to_json(record) for record in tuned_records()])
    assert log.run is not None
    pushed = dict(_results(log, log.run, Reporting(job_uuid(log.run_id), is_named=True, token_id=None)))

    batch = schemas.ResultBatch.model_validate(as_sent({"results": results_of(tuned_records())}))

    assert pushed == {item.trial_id: to_result(item, None) for item in batch.results}


@pytest.mark.parametrize("gradient_bytes", [(), (1024, 4096)])
def test_the_study_of_a_run_is_accepted(gradient_bytes: tuple[int, ...]) -> None:
    """A study is accepted with and without the sizes of its gradients."""
    schemas.NewStudy.model_validate(as_sent(study_of(run_record(), gradient_bytes)))


def test_a_log_is_accepted_as_it_is_pushed() -> None:
    """Whole records, and the job's id."""
    body = {"records": [record_to_json(record) for record in tuned_records()], "job_id": job_uuid("any name")}

    schemas.TuningLog.model_validate(as_sent(body))


def test_the_other_bodies_are_accepted() -> None:
    """Ask, renew, token."""
    schemas.Ask.model_validate({"trial_id": TRIAL, "job_id": JOB})
    schemas.Ask.model_validate({"trial_id": TRIAL, "job_id": JOB, "lease_s": 60.0})
    own = as_sent(
        search_space({"response_cache": False}, default_config().replace({"response_cache": False})).to_json()
    )
    schemas.Ask.model_validate({"trial_id": TRIAL, "job_id": JOB, "search_space": own})
    schemas.Renewal.model_validate({"job_id": JOB, "fencing_token": 3, "lease_s": 60.0})
    schemas.NewToken.model_validate({"name": "ci", "scopes": ["read", "report"]})
