# SPDX-License-Identifier: Apache-2.0
"""`POST /v1/runs`: a whole tuning log."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from fastapi import APIRouter
from fastapi.exceptions import RequestValidationError
from pydantic import TypeAdapter, ValidationError
from starlette.requests import Request

from ringtune.service.api.authorization import MAY_REPORT, TokenDep
from ringtune.service.api.dependencies import JSON_TYPE, StateDep, require_json
from ringtune.service.api.strict_json import JsonStream
from ringtune.service.domain.run_logs import collect_runs
from ringtune.service.domain.service import Service
from ringtune.shared_service import rest_models
from ringtune.shared_service.rest_models.fields import MAX_RECORDS
from ringtune.shared_service.rest_models.runs import LogRecord

router = APIRouter(tags=["runs"])
LOG = {JSON_TYPE: {"schema": {"$ref": "#/components/schemas/TuningLog"}}}
RECORD: TypeAdapter[dict[str, Any]] = TypeAdapter(LogRecord, config={"strict": True})
RECORDS = "records"


@router.post(
    "/v1/runs",
    dependencies=[MAY_REPORT],
    openapi_extra={"requestBody": {"required": True, "content": LOG}},
    responses={409: {"description": "Another log was stored under this run, or the job is another token's."}},
)
async def take_log(request: Request, state: StateDep, token_id: TokenDep) -> rest_models.StoredRuns:
    """Store the runs of a tuning log. The same log again, or one that has grown, stores its new records alone."""
    require_json(request)
    body = await request.body()
    stored = await state.work_on(body, partial(read_and_store, body, state.service, token_id))
    return rest_models.StoredRuns(runs=list(stored))


def read_and_store(body: bytes, service: Service, token_id: str | None) -> tuple[rest_models.StoredRun, ...]:
    """Read a log record by record and store its runs, once all of it was read.

    Raises:
        RequestValidationError: If the body is not as the OpenAPI description says.
        ServiceError: If it is no JSON, or the log cannot be stored.
    """
    stream = JsonStream(body, RECORDS)
    reading = _Records(stream)
    runs = collect_runs(reading)
    members: Mapping[str, Any] = {RECORDS: reading.first, **stream.members} if reading.first else stream.members
    try:
        log = rest_models.TuningLog.model_validate(members)
    except ValidationError as error:
        raise _refusal(error) from error
    return service.ledger.take_runs(runs, log.job_id, token_id)


class _Records:
    """The records of a log, each checked as it comes; the first one is kept."""

    def __init__(self, stream: JsonStream) -> None:
        self.first: list[dict[str, Any]] = []
        self._stream = stream

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield records; raises RequestValidationError at the first that is none, or is one too many."""
        for number, item in enumerate(self._stream.items()):
            if number >= MAX_RECORDS:
                words = f"List should have at most {MAX_RECORDS} items; send the log in parts"
                raise RequestValidationError([{"type": "too_long", "loc": ("body", RECORDS), "msg": words}])
            try:
                record = RECORD.validate_python(item)
            except ValidationError as error:
                raise _refusal(error, RECORDS, number) from error
            self.first = self.first or [record]
            yield record


def _refusal(error: ValidationError, *place: str | int) -> RequestValidationError:
    """Return the framework's error on a body, or on a part of it."""
    errors = error.errors(include_url=False, include_context=False, include_input=False)
    return RequestValidationError([{**item, "loc": ("body", *place, *item["loc"])} for item in errors])
