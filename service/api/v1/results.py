# SPDX-License-Identifier: Apache-2.0
"""`PUT .../trials/{id}/result` and `POST .../results`: telling. An answered result is durable."""

from collections.abc import Iterable

from fastapi import APIRouter
from starlette.responses import Response

from ringtune.service.api.authorization import MAY_REPORT, TokenDep
from ringtune.service.api.dependencies import JsonRoute, MetricsDep, ServiceDep
from ringtune.service.api.metrics import Metrics
from ringtune.service.domain.values import PairedTestResult, ReportedResult
from ringtune.shared_service import rest_models
from ringtune.tuner import Config, Phase, StepTimes, VoidReason

from .studies import NO_STUDY, StudyId
from .suggestions import TrialId

router = APIRouter(tags=["results"], route_class=JsonRoute)


@router.put(
    "/v1/studies/{study_id}/trials/{trial_id}/result",
    dependencies=[MAY_REPORT],
    responses={
        **NO_STUDY,
        201: {"model": rest_models.StoredResult, "description": "It was stored."},
        409: {"description": "The trial has another result, or is another job's; or the job is another token's."},
    },
)
async def tell(
    *,
    study_id: StudyId,
    trial_id: TrialId,
    body: rest_models.Result,
    service: ServiceDep,
    metrics: MetricsDep,
    token_id: TokenDep,
    response: Response,
) -> rest_models.StoredResult:
    """Report a measurement. The same again is answered 200; a result that came after its lease is kept as late."""
    stored: rest_models.StoredResult = await service.ledger.tell(study_id, trial_id, to_result(body, token_id))
    _count(metrics, [stored])
    response.status_code = 200 if stored.status == "same" else 201
    return stored


@router.post("/v1/studies/{study_id}/results", dependencies=[MAY_REPORT], responses=NO_STUDY)
def tell_batch(
    study_id: StudyId, body: rest_models.ResultBatch, service: ServiceDep, metrics: MetricsDep, token_id: TokenDep
) -> rest_models.StoredBatch:
    """Report several results at once; each is judged on its own, and its status stands at its place in the reply."""
    results = [(item.trial_id, to_result(item, token_id)) for item in body.results]
    stored = service.ledger.tell_batch(study_id, results)
    _count(metrics, stored)
    return rest_models.StoredBatch(items=list(stored))


def to_result(body: rest_models.Result, token_id: str | None) -> ReportedResult:
    """Return the domain's result, which came with this token."""
    times = body.step_ms
    known = times.median is not None and times.mad is not None and times.mean is not None
    return ReportedResult(
        config=Config(body.config),
        job_id=body.job_id,
        score_bytes_per_s=body.score_bytes_per_s,
        step_ms=StepTimes(times.median, times.mad, times.mean) if known else None,  # type: ignore[arg-type]
        steps=body.steps,
        valid=body.valid,
        reason=None if body.reason is None else VoidReason(body.reason),
        adoption=None if body.adoption is None else PairedTestResult(**body.adoption.model_dump()),
        phase=Phase(body.phase),
        run_id=body.run_id,
        fencing_token=body.fencing_token,
        token_id=token_id,
    )


def _count(metrics: Metrics, stored: Iterable[rest_models.StoredResult]) -> None:
    for item in stored:
        metrics.tells.labels(item.status).inc()
