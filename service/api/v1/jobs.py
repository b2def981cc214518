# SPDX-License-Identifier: Apache-2.0
"""`/v1/studies/{id}/jobs`: jobs' reports of themselves, and their outcomes."""

from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from ringtune.service.api.authorization import MAY_READ, MAY_REPORT, TokenDep
from ringtune.service.api.dependencies import JsonRoute, Responses, ServiceDep
from ringtune.service.domain.jobs import JobReport, StudyJob
from ringtune.service.domain.machines import MachineKind
from ringtune.shared_service import rest_models
from ringtune.shared_service.rest_models.fields import MAX_PAGE, UUID_PATTERN, QueryParams

from .studies import NO_STUDY, StudyId

router = APIRouter(tags=["jobs"], route_class=JsonRoute)
REFUSED: Responses = {**NO_STUDY, 409: {"description": "The job is another token's."}}


class PageParams(QueryParams):
    """Query parameters of a list: the page."""

    limit: Annotated[int, Field(ge=1, le=MAX_PAGE)] = MAX_PAGE
    cursor: Annotated[
        str | SkipJsonSchema[None], Field(max_length=200, description="The `next_cursor` of the page before.")
    ] = None


JobId = Annotated[str, Path(pattern=UUID_PATTERN, description="A UUID that the client made.")]


@router.put("/v1/studies/{study_id}/jobs/{job_id}", dependencies=[MAY_REPORT], responses=REFUSED)
def put_job(
    study_id: StudyId, job_id: JobId, body: rest_models.JobFacts, service: ServiceDep, token_id: TokenDep
) -> rest_models.JobFacts:
    """Say how far a job is, and its name. The reply has the stored facts."""
    kept = service.jobs.put(study_id, job_id, to_facts(body), token_id)
    return body.model_copy(update={"state": kept.state, "verdict": kept.verdict})


@router.get("/v1/studies/{study_id}/jobs", dependencies=[MAY_READ], responses=NO_STUDY)
def list_jobs(study_id: StudyId, params: Annotated[PageParams, Query()], service: ServiceDep) -> rest_models.JobList:
    """List the jobs of a study, those that were heard of last first, page by page."""
    service.studies.get(study_id)
    page = service.jobs.of_study(study_id, params.limit, params.cursor)
    return rest_models.JobList(items=[to_job(job) for job in page.items], next_cursor=page.next_cursor)


def to_facts(body: rest_models.JobFacts) -> JobReport:
    """Return the domain's facts."""
    machines = (MachineKind(**{**item.model_dump(), "gpus": tuple(item.gpus)}) for item in body.machines)
    return JobReport(**{**body.model_dump(), "tags": tuple(body.tags), "machines": tuple(machines)})


def to_job(job: StudyJob) -> rest_models.Job:
    """Return the reply's job."""
    return rest_models.Job(
        job_id=job.job_id,
        state=job.state,
        verdict=job.verdict,
        name=job.name,
        tags=list(job.tags),
        commit=job.commit,
        results=job.results,
        age_s=job.age_s,
        idle_s=job.idle_s,
    )
