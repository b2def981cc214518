# SPDX-License-Identifier: Apache-2.0
"""`GET /v1/recommendations`: the config that a job should start with."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import ConfigDict, Field, ValidationError
from pydantic.json_schema import SkipJsonSchema
from starlette.requests import Request
from starlette.responses import Response

from ringtune.service import schemas
from ringtune.service.api.authorization import ADMIN, MAY_READ, authorize, declared_scopes
from ringtune.service.api.dependencies import AppState, StateDep, encoded
from ringtune.service.domain.values import Recommendation, RecommendationQuery
from ringtune.service.schemas.fields import (
    LARGEST_INTEGER,
    MAX_HOSTS,
    MAX_RANKS_PER_HOST,
    Fingerprint,
    Message,
    Name,
    TargetName,
)

QueryCount = Annotated[int, Field(ge=0, le=LARGEST_INTEGER)]


class Question(Message):
    """The query for a start: the model by name or by fingerprint."""

    model_config = ConfigDict(strict=False)  # a query string is text

    model: Annotated[
        Name | SkipJsonSchema[None], Field(description="Its name; an ambiguous one is answered with candidates.")
    ] = None
    model_fingerprint: Fingerprint | SkipJsonSchema[None] = None
    hardware: Annotated[
        Fingerprint | SkipJsonSchema[None],
        Field(description="Fingerprint that `ringtune doctor --fingerprint` prints."),
    ] = None
    world_size: Annotated[int, Field(ge=1, le=MAX_HOSTS * MAX_RANKS_PER_HOST)] = 1
    local_size: (
        Annotated[int, Field(ge=1, le=MAX_RANKS_PER_HOST, description="Ranks per host; default: all on one.")]
        | SkipJsonSchema[None]
    ) = None
    target: TargetName = "ringtune"
    surface_version: Annotated[int, Field(ge=1, le=2**31 - 1)] = 1
    step_bytes: Annotated[
        QueryCount | SkipJsonSchema[None], Field(description="Gradient bytes of a step: finds similar models.")
    ] = None
    tensors: Annotated[QueryCount | SkipJsonSchema[None], Field(description="Gradients of a step.")] = None


class _AskingRoute(APIRoute):
    """Reads the question and calls the endpoint itself: the framework's way takes longer than finding the answer."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what answers a request."""
        needed = declared_scopes(self) or (ADMIN,)

        async def answer(request: Request) -> Response:
            authorize.check(request.scope, *needed)
            state: AppState = request.app.state.service_state
            return await recommend(request, _question(request), state)

        return answer


router = APIRouter(tags=["recommendations"], route_class=_AskingRoute)


@router.get(
    "/v1/recommendations",
    dependencies=[MAY_READ],
    response_model=schemas.Recommendation,
)
async def recommend(request: Request, question: Annotated[Question, Query()], state: StateDep) -> Response:
    """Recommend a config: of the same study, else of the nearest, else the default. No evidence is an answer too.

    Give `model_fingerprint`, or `model`. What is_prior marks must be tested by the job before it is believed.
    """
    find, query = state.service.recommendations.find, to_query(question)
    found = await asyncio.get_running_loop().run_in_executor(state.looking, find, query)
    state.metrics.recommendations.labels(found.source).inc()
    body = encoded(to_reply(found))
    state.cache.put(request.scope["query_string"], body)
    return Response(body, media_type="application/json")


def _question(request: Request) -> Question:
    """Return what the query string asks; raises RequestValidationError as the framework does."""
    try:
        return Question.model_validate(dict(request.query_params))
    except ValidationError as error:
        raise RequestValidationError([{**item, "loc": ("query", *item["loc"])} for item in error.errors()]) from error


def to_query(question: Question) -> RecommendationQuery:
    """Return the domain's question."""
    return RecommendationQuery(
        hardware=question.hardware,
        world_size=question.world_size,
        local_size=question.local_size or question.world_size,
        model=question.model_fingerprint,
        model_name=question.model,
        target=question.target,
        surface_version=question.surface_version,
        step_bytes=question.step_bytes,
        tensors=question.tensors,
    )


def to_reply(found: Recommendation) -> dict[str, Any]:
    """Return the reply's values; plain ones, for the model's checks would cost more than finding the answer."""
    return {
        "config": found.config.to_json(),
        "source": found.source,
        "target": found.target,
        "is_prior": found.is_prior,
        "standing": found.standing,
        "evidence": vars(found.evidence),
        "key": None if found.key is None else vars(found.key),
        "distance": found.distance,
        "reason": found.reason or None,
        "candidates": [
            {"model_fingerprint": item.model, "model_name": item.model_name, "trials": item.trials}
            for item in found.candidates
        ],
    }
