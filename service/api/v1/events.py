# SPDX-License-Identifier: Apache-2.0
"""`GET /v1/events`: changes as they happen (server-sent events)."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import StreamingResponse

from ringtune.service.api.access import Callers
from ringtune.service.api.authorization import MAY_READ
from ringtune.service.api.dependencies import StateDep
from ringtune.service.api.event_stream import After, EventStream, LastEventId, event_stream
from ringtune.service.errors import Unauthenticated

router = APIRouter(tags=["events"])


@router.get(
    "/v1/events",
    dependencies=[MAY_READ],
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "Lasts until one side ends it.",
            "content": {EventStream.media_type: {"schema": {"type": "string"}}},
        }
    },
)
async def events(
    request: Request, state: StateDep, last_event_id: LastEventId = None, after: After = None
) -> EventStream:
    """Follow the results that are stored, from now on or from where an earlier connection ended.

    Between events there are comments as signs of life. The number of listeners is bounded.
    """
    callers: Callers = request.app.state.pages_state.callers

    async def may_listen() -> bool:
        try:
            await callers.find(dict(request.scope["headers"]))
        except Unauthenticated:
            return False
        return True

    return await event_stream(state, last_event_id or after, may_listen)
