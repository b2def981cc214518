# SPDX-License-Identifier: Apache-2.0
"""Every error is a problem with a stable code, whoever raised it."""

from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

import jsonschema
import pytest
from starlette.testclient import TestClient

from ringtune.service.api.authorization import MAY_READ
from ringtune.shared_service.rest_models import Problem
from tests.contract.service.applications import ADMIN_SECRET, application, bearer
from tests.contract.service.requests import STUDY_BODY, UUIDS

JSON = {"content-type": "application/json"}
STUDIES = "/v1/studies"
FORM = {"content-type": "application/x-www-form-urlencoded"}
RESULT = f"/v1/studies/{'0' * 32}/trials/{UUIDS[0]}/result"
DEEP = b"[" * 10_000
SECRET_MESSAGE = "password=hunter2"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A client with every scope; one route of its application is broken."""
    app = application(tmp_path_factory.mktemp("problems"))

    @app.get("/v1/broken", dependencies=[MAY_READ])
    def broken() -> None:
        raise RuntimeError(SECRET_MESSAGE)

    caller = TestClient(app, base_url="http://127.0.0.1", headers=bearer(ADMIN_SECRET))
    with caller:
        yield caller


CASES: list[tuple[str, str, dict[str, Any], int, str]] = [
    ("GET", "/v1/nothing", {}, 404, "route_not_found"),
    ("GET", f"/v1/studies/{'0' * 32}", {}, 404, "study_not_found"),
    ("DELETE", f"/v1/tokens/{'0' * 16}", {}, 404, "token_not_found"),
    ("PATCH", f"/v1/tokens/{'0' * 16}", {"json": {"has_many_jobs": True}}, 404, "token_not_found"),
    ("PATCH", f"/v1/tokens/{'0' * 16}", {"json": {"has_many_jobs": 1}}, 422, "malformed_request"),
    ("PATCH", STUDIES, {}, 405, "method_not_allowed"),
    ("POST", STUDIES, {"content": b"{", "headers": JSON}, 400, "unreadable_body"),
    ("POST", STUDIES, {"content": b'{"key": NaN}', "headers": JSON}, 400, "unreadable_body"),
    ("POST", STUDIES, {"content": b"\xff\xfe", "headers": JSON}, 400, "unreadable_body"),
    ("POST", STUDIES, {"content": DEEP, "headers": JSON}, 400, "unreadable_body"),
    ("POST", STUDIES, {"content": b"{}", "headers": {"content-type": "text/plain"}}, 415, "unsupported_media_type"),
    ("POST", STUDIES, {"content": b"{}"}, 415, "unsupported_media_type"),
    ("PUT", RESULT, {"content": b"{}", "headers": FORM}, 415, "unsupported_media_type"),
    ("POST", STUDIES, {"headers": FORM}, 422, "malformed_request"),
    ("POST", STUDIES, {"json": {**STUDY_BODY, "surprise": 1}}, 422, "malformed_request"),
    ("POST", STUDIES, {"json": {**STUDY_BODY, "model_name": "a\x00b"}}, 422, "malformed_request"),
    ("POST", STUDIES, {"content": b"x" * (2 << 20), "headers": JSON}, 413, "body_too_large"),
    ("POST", STUDIES, {"content": b"x", "headers": {"content-encoding": "gzip"}}, 415, "unsupported_media_type"),
    ("POST", "/v1/import", {"content": b"{}", "headers": JSON}, 415, "unsupported_media_type"),
    ("POST", "/v1/import", {"content": b"\xff", "headers": {"content-type": "application/x-ndjson"}}, 400, ""),
    ("GET", "/v1/studies?limit=0", {}, 422, "malformed_request"),
    ("GET", "/v1/studies?cursor=nonsense", {}, 422, "invalid_request"),
    ("GET", "/v1/studies?surprise=1", {}, 422, "malformed_request"),
    ("GET", "/v1/broken", {}, 500, "internal"),
]


@pytest.mark.parametrize(("method", "path", "parts", "status", "code"), CASES)
def test_an_error_is_a_problem(
    *, method: str, path: str, parts: dict[str, Any], status: int, code: str, client: TestClient
) -> None:
    """A problem has the status, the code, and the id under which the log has more; internals stay inside."""
    reply = client.request(method, path, **parts)

    problem = reply.json()
    jsonschema.validate(problem, Problem.model_json_schema())
    assert (status, "application/problem+json") == (reply.status_code, reply.headers["content-type"])
    assert (status, code or problem["code"]) == (problem["status"], problem["code"])
    assert reply.headers["x-request-id"] == problem["request_id"] != ""
    assert SECRET_MESSAGE not in reply.text
    assert ("allow" in reply.headers) == (status == 405)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"job_id": 1, "job_id": 2}', "the name 'job_id' occurs twice"),
        (b'{"steps": 1e999}', "the number 1e999 is too large"),
        (DEEP, "nested too deeply"),
        (b'{"steps": ' + b" " * (20 << 10) + b"NaN}", "line 1"),
    ],
)
def test_an_unreadable_body_is_told_where_it_is_wrong(body: bytes, words: str, client: TestClient) -> None:
    """The reader's own words are in the answer, for small bodies and for those that a thread reads."""
    reply = client.put(RESULT, content=body, headers=JSON)

    assert (400, "unreadable_body") == (reply.status_code, reply.json()["code"])
    assert words in reply.json()["detail"]


def test_a_wrong_optional_field_is_one_error_under_its_own_name(client: TestClient) -> None:
    """The alternative of no value is not told as a second error, and no name of a type is in a location."""
    problem = client.get(f"{STUDIES}?model=&hardware=x").json()

    assert ["query.model", "query.hardware"] == [field["location"] for field in problem["errors"]]
    assert problem["detail"].startswith("2 fields are not as /openapi.json says; the first: query.model: ")


def test_sent_values_are_not_repeated(client: TestClient) -> None:
    """A problem names wrong fields, twenty at most and those of one item of a list, but repeats no value of them."""
    unknown = {f"unknown_{number}": "hunter2" for number in range(30)}
    results = [{"trial_id": UUIDS[0], "steps": "hunter2", **unknown}] * 1000

    reply = client.post(f"/v1/studies/{'0' * 32}/results", json={"results": results})

    assert 422 == reply.status_code
    assert 20 == len(reply.json()["errors"])
    assert "hunter2" not in reply.text


@pytest.mark.parametrize(
    ("path", "body", "age"),
    [
        (STUDIES, {**STUDY_BODY, "surprise": 1}, "newer"),
        (STUDIES, {"search_space": STUDY_BODY["search_space"]}, "older"),
        (f"{STUDIES}/{'0' * 32}/results", {"results": [{"surprise": 1}]}, "newer or older"),
        (STUDIES, {**STUDY_BODY, "model_name": 7}, None),
    ],
)
def test_a_client_of_another_version_is_told(
    path: str, body: dict[str, Any], age: str | None, client: TestClient
) -> None:
    """An unknown or missing field is answered with this service's version, so that one side can be mended."""
    detail = client.post(path, json=body).json()["detail"]

    hint = f"this service is ringtune {version('ringtune')}: is the client {age}?"
    assert (age is not None) == detail.endswith(hint)
    assert (age is not None) == ("is the client" in detail)


def test_a_false_trial_is_named_as_in_the_description(client: TestClient) -> None:
    """The place in the request is told as a path."""
    reply = client.put(f"/v1/studies/{'0' * 32}/trials/{UUIDS[0]}/result", json={"job_id": "no uuid"})

    assert "body.job_id" in {field["location"] for field in reply.json()["errors"]}
