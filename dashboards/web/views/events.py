# SPDX-License-Identifier: Apache-2.0
"""The pages' stream of events: that of `/v1/events`, for browsers that are signed in."""

from starlette.requests import Request
from starlette.responses import StreamingResponse

from ringtune.dashboards.web.paths import EVENTS
from ringtune.service.api.authorization import SESSION_KEY
from ringtune.service.api.browser_sessions import SignedIn
from ringtune.service.api.dependencies import StateDep
from ringtune.service.api.event_stream import After, EventStream, LastEventId, event_stream
from ringtune.service.errors import Unauthenticated

from .dependencies import READERS_PAGE, CallersDep, SessionsDep, new_router

router = new_router()


@router.get(EVENTS, dependencies=READERS_PAGE, response_class=StreamingResponse)
async def events(
    *,
    request: Request,
    state: StateDep,
    callers: CallersDep,
    sessions: SessionsDep,
    last_event_id: LastEventId = None,
    after: After = None,
) -> EventStream:
    """Follow the results that are stored, until the session ends."""
    signed_in: SignedIn | None = request.scope.get(SESSION_KEY)

    async def may_listen() -> bool:
        if signed_in is not None:
            return await sessions.find(signed_in.session_id, is_use=False) is not None
        try:
            await callers.find(dict(request.scope["headers"]))
        except Unauthenticated:
            return False
        return True

    return await event_stream(state, last_event_id or after, may_listen)
