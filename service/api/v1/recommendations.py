# SPDX-License-Identifier: Apache-2.0
"""`GET /v1/recommendations`: the config that a job should start with."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response

from ringtune.service.api.authorization import ADMIN, MAY_READ, authorize, declared_scopes
from ringtune.service.api.dependencies import AppState, StateDep
from ringtune.service.domain.values import RecommendationQuery
from ringtune.shared_service.rest_models import Recommendation, RecommendationParams


class _DirectRoute(APIRoute):
    """Route that parses the query and calls the endpoint itself: the framework takes longer for it than the answer."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the object that answers a request."""
        needed = declared_scopes(self) or (ADMIN,)

        async def answer(request: Request) -> Response:
            authorize.check(request.scope, *needed)
            state: AppState = request.app.state.service_state
            return await recommend(request, _params_of(request), state)

        return answer


router = APIRouter(tags=["recommendations"], route_class=_DirectRoute)


@router.get(
    "/v1/recommendations",
    dependencies=[MAY_READ],
    response_model=Recommendation,
)
async def recommend(request: Request, params: Annotated[RecommendationParams, Query()], state: StateDep) -> Response:
    """Recommend a config: of the same study, else of the nearest, else the default. No evidence is an answer too.

    Give `model_fingerprint`, or `model`. A job must test a config with `is_prior` before it relies on it.
    """
    find, query = state.service.recommendations.find, to_query(params)
    found = await asyncio.get_running_loop().run_in_executor(state.looking, find, query)
    state.metrics.recommendations.labels(found.source).inc()
    body = found.model_dump_json().encode()
    state.cache.put(request.scope["query_string"], body)
    return Response(body, media_type="application/json")


def _params_of(request: Request) -> RecommendationParams:
    """Return the query parameters; raises RequestValidationError as the framework does."""
    try:
        return RecommendationParams.model_validate(dict(request.query_params))
    except ValidationError as error:
        raise RequestValidationError([{**item, "loc": ("query", *item["loc"])} for item in error.errors()]) from error


def to_query(params: RecommendationParams) -> RecommendationQuery:
    """Return the domain's params."""
    return RecommendationQuery(
        hardware=params.hardware,
        world_size=params.world_size,
        local_size=params.local_size or params.world_size,
        model=params.model_fingerprint,
        model_name=params.model,
        target=params.target,
        surface_version=params.surface_version,
        step_bytes=params.step_bytes,
        tensors=params.tensors,
    )
