# SPDX-License-Identifier: Apache-2.0
"""The service keeps its OpenAPI description, whatever is sent: all of schemathesis's checks on generated requests.

The events are left out, for their reply does not end; `tests/integration/service` follows them.
"""

import json
import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode
from schemathesis.specs.openapi.checks import negative_data_rejection

from ringtune.service.domain.archive_seal import LineSeal
from tests.contract.service.applications import ADMIN_SECRET, application, bearer
from tests.contract.service.requests import RUN_RECORDS, STUDY_BODY, UUIDS, result_body

LIMIT_S = 120.0
"""Limit of one request in seconds, generous because a busy machine is no finding."""
LINES = "application/x-ndjson"
ENDLESS = "/v1/events"
SHORT_CASES = 600
LONG_CASES = 100_000
SPARE = 1.1
"""Some operations have fewer different requests than their share."""
WITHOUT_INPUT = frozenset({"GET /healthz", "GET /readyz"})
DOMAIN_SAYS = [200, 201, 204, 400, 401, 403, 404, 409, 413, 415, 422, 429]
"""Statuses that schema-valid data may meet: values that make no sense together are 422 too, under another code."""


@dataclass(frozen=True)
class Known:
    """The studies, jobs and tokens that exist before the requests come."""

    study_id: str
    archive: str


def description_of(app: FastAPI) -> Any:
    """Return the description, as the application itself gives it."""
    config = schemathesis.Config.from_dict(
        {
            "request-timeout": LIMIT_S,
            "checks": {"positive_data_acceptance": {"expected-statuses": [str(status) for status in DOMAIN_SAYS]}},
        }
    )
    return schemathesis.openapi.from_asgi("/openapi.json", app, headers=bearer(ADMIN_SECRET), config=config)


def operations_of(description: Any) -> list[Any]:
    """Return all operations whose replies end."""
    found = [result.ok() for result in description.get_all_operations()]
    return [operation for operation in found if operation.path != ENDLESS]


def check_operation(operation: Any, mode: GenerationMode, cases: int, known: Known) -> Counter[int]:
    """Send so many generated requests; half of those to a study go to one that is there."""
    statuses: Counter[int] = Counter()

    @settings(
        max_examples=cases,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode), is_known=st.booleans(), trial=st.sampled_from(UUIDS))
    def send(case: Case[Any], is_known: bool, trial: str) -> None:
        if is_known and mode is GenerationMode.POSITIVE:
            make_plausible(case, known, trial)
        # A fault in a query may not reach the wire: an empty list, as an unknown parameter, is not sent.
        excluded: list[Any] = [] if "requestBody" in operation.definition.raw else [negative_data_rejection]
        response = case.call_and_validate(headers=bearer(ADMIN_SECRET), excluded_checks=excluded)
        statuses[response.status_code] += 1
        if mode is GenerationMode.POSITIVE and response.status_code == 422:
            assert "malformed_request" != response.json()["code"], f"{case!r} {response.text}"

    send()
    return statuses


def make_plausible(case: Case[Any], known: Known, trial_id: str) -> None:
    """Replace generated values by existing and legal ones, so that the request gets further."""
    ids = {"study_id": known.study_id, "trial_id": trial_id}
    if case.operation.label != "DELETE /v1/studies/{study_id}":
        case.path_parameters.update({name: ids[name] for name in case.path_parameters if name in ids})
    body: Any = case.body
    if case.operation.path == "/v1/import":
        case.body = archive_with(known.archive, str(body))
    elif case.operation.path == "/v1/runs":
        body["records"] = [*RUN_RECORDS, *body["records"]]
    elif isinstance(body, dict):
        legal = {"search_space": STUDY_BODY["search_space"], "config": result_body(trial_id)["config"]}
        for part in (body, *body.get("results", ())):
            part.update({name: value for name, value in legal.items() if name in part})


def archive_with(archive: str, more: str) -> str:
    """Return an export that has more lines, with a last line that fits them."""
    seal = LineSeal()
    lines = [*archive.splitlines()[:-1], *(line for line in more.split("\n") if line.strip())]
    return "\n".join([*map(seal.add, lines), seal.line])


def lines_of(value: Any) -> str:
    """Return text as it is."""
    return value if isinstance(value, str) else json.dumps(value, default=str)


@schemathesis.serializer(LINES)
def lines_as_they_are(_context: Any, value: Any) -> Any:
    """JSON Lines go over the wire as text, and other bodies as JSON."""
    return {"content": value if isinstance(value, bytes) else lines_of(value).encode()}


def check_service(folder: Path, cases: int) -> Counter[int]:
    """Share the cases out among the operations and return the answers."""
    app = application(folder)
    description = description_of(app)
    known = fill(description)
    operations = operations_of(description)
    share = math.ceil(SPARE * cases / (2 * len(operations) - len(WITHOUT_INPUT)))
    answered: Counter[int] = Counter()
    for operation in operations:
        answered += check_operation(operation, GenerationMode.POSITIVE, share, known)
        if operation.label not in WITHOUT_INPUT:
            answered += check_operation(operation, GenerationMode.NEGATIVE, share, known)
    return answered


def fill(description: Any) -> Known:
    """Create a study with a result; return its id and its export."""

    def call(path: str, method: str, **parts: Any) -> Any:
        return description[path][method].Case(**parts).call(headers=bearer(ADMIN_SECRET))

    json_type = "application/json"
    study_id = call("/v1/studies", "POST", body=STUDY_BODY, media_type=json_type).json()["id"]
    place = {"study_id": study_id, "trial_id": UUIDS[0]}
    path = "/v1/studies/{study_id}/trials/{trial_id}/result"
    reply = call(path, "PUT", path_parameters=place, body=result_body(UUIDS[1]), media_type=json_type)
    assert 201 == reply.status_code, reply.text
    return Known(study_id, call("/v1/export", "GET").text)


def test_generated_requests_keep_the_description(tmp_path: Path, record_property: Any) -> None:
    """No 5xx, no reply that the description does not have, no bad data taken, no good data called malformed."""
    answered = check_service(tmp_path, SHORT_CASES)

    record_property("answered", dict(sorted(answered.items())))
    assert SHORT_CASES <= answered.total()
    assert {200, 201, 400, 401, 404, 422} <= set(answered)
    assert max(answered) < 500


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_many_generated_requests_keep_the_description(tmp_path: Path, record_property: Any) -> None:
    """The description holds for a hundred times as many generated requests."""
    answered = check_service(tmp_path, LONG_CASES)

    record_property("answered", dict(sorted(answered.items())))
    assert LONG_CASES <= answered.total()
    assert max(answered) < 500
