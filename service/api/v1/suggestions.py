# SPDX-License-Identifier: Apache-2.0
"""`/v1/studies/{id}/suggestions`: ask, renew, release."""

from typing import Annotated

from fastapi import APIRouter, Path, Query

from ringtune.service.api.authorization import MAY_REPORT, TokenDep
from ringtune.service.api.dependencies import JsonRoute, MetricsDep, Responses, ServiceDep
from ringtune.service.domain.suggestions import HeldLease
from ringtune.service.domain.values import LeasedSuggestion
from ringtune.shared_service import rest_models
from ringtune.shared_service.rest_models.fields import LARGEST_INTEGER, UUID_PATTERN

from .studies import NO_STUDY, StudyId

router = APIRouter(tags=["suggestions"], route_class=JsonRoute)
TrialId = Annotated[
    str,
    Path(
        pattern=UUID_PATTERN,
        description="A UUID that the client made, in lower case.",
    ),
]
LEASE = "/v1/studies/{study_id}/suggestions/{trial_id}/lease"
NO_TRIAL: Responses = {404: {"description": "There is no such study, or nobody asked for this trial."}}
LOST: Responses = {
    409: {"description": "The lease expired, was released, a newer one holds, or the job is another token's."}
}


@router.post(
    "/v1/studies/{study_id}/suggestions",
    dependencies=[MAY_REPORT],
    responses={**NO_STUDY, 409: {"description": "Another job asked for this trial, or the job is another token's."}},
)
def ask(
    study_id: StudyId, body: rest_models.Ask, service: ServiceDep, metrics: MetricsDep, token_id: TokenDep
) -> rest_models.Suggestion:
    """Ask for a config to try. It is this job's until the lease ends; the same trial again gets the same config.

    It has the knobs that the study's first job had fixed. A job whose `search_space` is another sends it, and gets a
    config that is legal there.
    """
    space = None if body.search_space is None else body.search_space.model_dump()
    suggestion = service.suggestions.ask(
        study_id, body.trial_id, body.job_id, body.lease_s, space_json=space, token_id=token_id
    )
    metrics.asks.inc()
    return to_suggestion(suggestion)


@router.put(LEASE, dependencies=[MAY_REPORT], responses={**NO_TRIAL, **LOST})
def renew(
    study_id: StudyId, trial_id: TrialId, body: rest_models.Renewal, service: ServiceDep, token_id: TokenDep
) -> rest_models.Suggestion:
    """Keep the trial for longer, from now on."""
    held = HeldLease(study_id, trial_id, body.job_id, body.fencing_token, token_id)
    return to_suggestion(service.suggestions.renew(held, body.lease_s))


@router.delete(LEASE, dependencies=[MAY_REPORT], responses={**NO_TRIAL, **LOST}, status_code=204)
def release(
    *,
    study_id: StudyId,
    trial_id: TrialId,
    job_id: Annotated[str, Query(pattern=UUID_PATTERN, description="Job that holds the lease.")],
    fencing_token: Annotated[int, Query(ge=0, le=LARGEST_INTEGER, description="Fencing token of the lease.")],
    service: ServiceDep,
    token_id: TokenDep,
) -> None:
    """Give the trial back before it was measured: another job may get the config."""
    service.suggestions.release(HeldLease(study_id, trial_id, job_id, fencing_token, token_id))


def to_suggestion(suggestion: LeasedSuggestion) -> rest_models.Suggestion:
    """Return the reply's suggestion."""
    return rest_models.Suggestion(
        trial_id=suggestion.trial_id,
        config=suggestion.config.to_json(),
        designer=suggestion.designer,
        lease=rest_models.Lease(fencing_token=suggestion.fencing_token, expires_in_s=max(0.0, suggestion.expires_in_s)),
    )
