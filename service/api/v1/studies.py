# SPDX-License-Identifier: Apache-2.0
"""`/v1/studies`: all trials for one key."""

from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from ringtune.service.api.authorization import MAY_ADMINISTER, MAY_READ, MAY_REPORT, TokenDep
from ringtune.service.api.dependencies import AppState, JsonRoute, Responses, ServiceDep, StateDep
from ringtune.service.domain.values import StudyFilter, StudyRecord
from ringtune.shared_service import rest_models
from ringtune.shared_service.advice.answers import rest_key
from ringtune.shared_service.rest_models.fields import MAX_PAGE, Fingerprint, Name, QueryParams, TargetName
from ringtune.tuner.priors.relevance import StudyKey

router = APIRouter(tags=["studies"], route_class=JsonRoute)
StudyId = Annotated[str, Path(pattern=r"^[0-9a-f]{32}$", description="Id of the study.")]
NO_STUDY: Responses = {404: {"description": "There is no such study."}}
DEFAULT_PAGE = 50


class StudyListParams(QueryParams):
    """Query parameters of `GET /v1/studies`: filters, and the page."""

    model_fingerprint: Fingerprint | SkipJsonSchema[None] = None
    model: Name | SkipJsonSchema[None] = None
    hardware: Fingerprint | SkipJsonSchema[None] = None
    target: TargetName | SkipJsonSchema[None] = None
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE)] = DEFAULT_PAGE
    cursor: Annotated[
        str | SkipJsonSchema[None], Field(max_length=200, description="The `next_cursor` of the page before.")
    ] = None


@router.post("/v1/studies", dependencies=[MAY_REPORT])
def find_or_create_study(new: rest_models.NewStudy, state: StateDep, token_id: TokenDep) -> rest_models.Study:
    """Return the study of a key; make it if there is none. The names and the space stay those of the first job."""
    study = state.service.studies.find_or_create(
        to_key(new.key),
        model_name=new.model_name,
        hardware_name=new.hardware_name,
        space_json=new.search_space.model_dump(),
        gradient_bytes=tuple(new.gradient_bytes),
        token_id=token_id,
    )
    return to_study(study, state)


@router.get("/v1/studies", dependencies=[MAY_READ])
def list_studies(params: Annotated[StudyListParams, Query()], state: StateDep) -> rest_models.StudyPage:
    """List studies, page by page."""
    wanted = StudyFilter(params.model_fingerprint, params.model, params.hardware, params.target)
    page = state.service.studies.list(wanted, cursor=params.cursor, limit=params.limit)
    return rest_models.StudyPage(items=[to_study(study, state) for study in page.items], next_cursor=page.next_cursor)


@router.get("/v1/studies/{study_id}", dependencies=[MAY_READ], responses=NO_STUDY)
def get_study(study_id: StudyId, state: StateDep) -> rest_models.Study:
    """Return one study."""
    return to_study(state.service.studies.get(study_id), state)


@router.delete("/v1/studies/{study_id}", dependencies=[MAY_ADMINISTER], responses=NO_STUDY, status_code=204)
def delete_study(study_id: StudyId, service: ServiceDep) -> None:
    """Delete a study and everything that was reported to it."""
    service.studies.delete(study_id)


def to_key(key: rest_models.StudyKey) -> StudyKey:
    """Return the domain's key; the layout is sorted, as keys have it."""
    return StudyKey(key.hardware, key.model, tuple(sorted(key.layout)), key.target, key.surface_version)


def to_study(study: StudyRecord, state: AppState) -> rest_models.Study:
    """Return the reply's study, with its page where the application has pages."""
    return rest_models.Study(
        id=study.study_id,
        key=rest_key(study.key),
        model_name=study.model_name,
        hardware_name=study.hardware_name,
        search_space=dict(study.space),
        trials=study.trials,
        jobs=study.jobs,
        age_s=study.age_s,
        page=None if state.study_path is None else state.study_path(study.study_id),
    )
