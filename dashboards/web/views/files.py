# SPDX-License-Identifier: Apache-2.0
"""The static files."""

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from ringtune.dashboards.web.assets import PREFIX, Assets

from .dependencies import READERS_PAGE, new_router

router = new_router()


@router.get(PREFIX + "{name}", dependencies=READERS_PAGE)
async def static_file(request: Request, name: str) -> Response:
    """Return a file of this version."""
    assets: Assets = request.app.state.pages.assets
    asset = assets.get(f"{PREFIX}{name}")
    return await run_in_threadpool(asset.response, request.headers.get("accept-encoding", ""))
