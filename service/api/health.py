# SPDX-License-Identifier: Apache-2.0
"""Routes of health: liveness, readiness, metrics, and the API's description."""

from typing import Any, Literal

from anyio import to_thread
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ringtune.service.errors import ShuttingDown
from ringtune.shared_service.rest_models.fields import WireModel

from .authorization import MAY_READ
from .dependencies import StateDep

METRICS_MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"

router = APIRouter(tags=["health"])


class Health(WireModel):
    """The answer of a service that is well."""

    status: Literal["ok"] = "ok"


@router.get("/healthz")
async def healthz() -> Health:
    """Report that the process lives, without a look at the database."""
    return Health()


@router.get("/readyz")
async def readyz(state: StateDep) -> Health:
    """Report whether a result would be stored now, and found after a restart; 503 with the reason otherwise."""
    if state.ending.is_set():
        raise ShuttingDown("the service is ending; try again when it is back")
    await to_thread.run_sync(state.service.check_ready, limiter=state.health_threads)
    return Health()


@router.get(
    "/metrics",
    dependencies=[MAY_READ],
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def metrics(state: StateDep) -> Response:
    """Return the counters in Prometheus's text format."""
    text = await to_thread.run_sync(state.metrics.text, limiter=state.health_threads)
    return Response(text, media_type=METRICS_MEDIA_TYPE)


@router.get("/openapi.json", dependencies=[MAY_READ])
async def openapi(request: Request) -> dict[str, Any]:
    """Return this description."""
    description: dict[str, Any] = request.app.openapi()
    return description
