# SPDX-License-Identifier: Apache-2.0
"""`POST /v1/runs`: a whole tuning log."""

from dataclasses import asdict

from fastapi import APIRouter

from ringtune.service import schemas
from ringtune.service.api.access import TokenDep, needs
from ringtune.service.api.parts import JsonRoute, ServiceDep

router = APIRouter(tags=["runs"], route_class=JsonRoute)


@router.post(
    "/v1/runs",
    openapi_extra=needs("report"),
    responses={409: {"description": "Another log was stored under this run, or the job is another token's."}},
)
def take_log(log: schemas.TuningLog, service: ServiceDep, token_id: TokenDep) -> schemas.StoredRuns:
    """Store the runs of a tuning log. The same log again, or one that has grown, stores only what is new."""
    stored = service.ledger.take_run(log.records, log.job_id, token_id)
    return schemas.StoredRuns(runs=[schemas.StoredRun(**asdict(run)) for run in stored])
