# SPDX-License-Identifier: Apache-2.0
"""`GET /v1/export` and `POST /v1/import`: everything, as JSON Lines."""

from collections.abc import Iterator
from dataclasses import asdict

from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import StreamingResponse

from ringtune.service import schemas
from ringtune.service.api.access import needs
from ringtune.service.api.parts import ServiceDep
from ringtune.service.api.refusals import UnreadableBodyError, UnsupportedMediaTypeError

MEDIA_TYPE = "application/x-ndjson"
LINES = {MEDIA_TYPE: {"schema": {"type": "string"}}}
LINES_PER_PART = 500

router = APIRouter(tags=["operators"])


@router.get(
    "/v1/export",
    openapi_extra=needs("admin"),
    response_class=StreamingResponse,
    responses={200: {"description": "JSON Lines; `POST /v1/import` takes them.", "content": LINES}},
)
def export_everything(service: ServiceDep) -> StreamingResponse:
    """Return all studies and results. Tokens are not in it."""
    return StreamingResponse(_parts(service.archive.export()), media_type=MEDIA_TYPE)


@router.post(
    "/v1/import",
    openapi_extra={**needs("admin"), "requestBody": {"required": True, "content": LINES}},
)
async def import_everything(request: Request, service: ServiceDep) -> schemas.Imported:
    """Take what an export gave. What is here already stays as it is; the same lines again change nothing."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != MEDIA_TYPE:
        raise UnsupportedMediaTypeError(f"the body is {media_type[:100]!r}; send JSON Lines as {MEDIA_TYPE}")
    try:
        lines = (await request.body()).decode().split("\n")
    except UnicodeDecodeError as error:
        raise UnreadableBodyError(f"byte {error.start} of the body is not UTF-8") from error
    taken = await run_in_threadpool(service.archive.take, [line for line in lines if line.strip()])
    return schemas.Imported(**asdict(taken))


def _parts(lines: Iterator[str]) -> Iterator[str]:
    """Join lines, for one at a time would cost a switch of threads each."""
    part: list[str] = []
    for line in lines:
        part.append(line.rstrip("\n"))
        if len(part) == LINES_PER_PART:
            yield "\n".join(part) + "\n"
            part = []
    if part:
        yield "\n".join(part) + "\n"
