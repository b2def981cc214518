# SPDX-License-Identifier: Apache-2.0
"""`GET /v1/export` and `POST /v1/import`: everything, as JSON Lines."""

from collections.abc import Generator, Iterator
from contextlib import closing
from functools import partial
from io import BytesIO

import structlog
from anyio import CancelScope, fail_after
from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from ringtune.service.api.admission import Admission
from ringtune.service.api.authorization import MAY_ADMINISTER
from ringtune.service.api.dependencies import ServiceDep, StateDep
from ringtune.service.api.problems import send_problem
from ringtune.service.api.refusals import UnreadableBodyError, UnsupportedMediaTypeError
from ringtune.service.api.strict_json import values_max
from ringtune.service.errors import BodyTooLarge
from ringtune.shared_service import rest_models

MEDIA_TYPE = "application/x-ndjson"
LINES = {MEDIA_TYPE: {"schema": {"type": "string"}}}
LINES_PER_PART = 500
LINE_BYTES_MAX = 1 << 20
"""Bytes of a line of an import: each is read at once; the longest have a study's gradients, below 300 kB."""
READER_S = 30.0
"""Seconds for which the reader of an export may pause."""

router = APIRouter(tags=["operators"])


@router.get(
    "/v1/export",
    dependencies=[MAY_ADMINISTER],
    response_class=StreamingResponse,
    responses={200: {"description": "JSON Lines; `POST /v1/import` takes them.", "content": LINES}},
)
def export_everything(service: ServiceDep, state: StateDep) -> StreamingResponse:
    """Return all studies and results. Tokens are not in it."""
    return _Export(_joined(service.archive.export()), state.exports)


@router.post(
    "/v1/import",
    dependencies=[MAY_ADMINISTER],
    openapi_extra={"requestBody": {"required": True, "content": LINES}},
)
async def import_everything(request: Request, state: StateDep, service: ServiceDep) -> rest_models.Imported:
    """Store the lines of an export. Rows that are here already stay as they are; the same lines again change no row."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != MEDIA_TYPE:
        raise UnsupportedMediaTypeError(f"the body is {media_type[:100]!r}; send JSON Lines as {MEDIA_TYPE}")
    body = await request.body()
    if body.count(b"\n") > values_max(len(body)):
        raise BodyTooLarge(f"the body has more than {values_max(len(body))} lines; an export has none that are empty")
    return await state.work_on(body, partial(service.archive.take, _BodyLines(body)))


class _BodyLines:
    """The lines of a body, one at a time; they can be read again."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def __iter__(self) -> Iterator[str]:
        """Yield lines that are not empty; raises a ServiceError at one that cannot be read."""
        for number, line in enumerate(BytesIO(self._body), start=1):
            if len(line) > LINE_BYTES_MAX:
                raise BodyTooLarge(f"line {number} has more than {LINE_BYTES_MAX} bytes; an export has none so long")
            try:
                text = line.decode()
            except UnicodeDecodeError as error:
                raise UnreadableBodyError(f"byte {error.start} of line {number} is not UTF-8") from error
            if text.strip():
                yield text


class _Export(StreamingResponse):
    """An export on its way: it holds a connection to the database, so there are few, and none waits for ever."""

    def __init__(self, content: Generator[str, None, None], places: Admission) -> None:
        super().__init__(content, media_type=MEDIA_TYPE)
        self._content = content
        self._places = places

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send all of it; 503 without a place, and a broken connection for a client that pauses for `READER_S`."""
        if self._places.is_full:
            await send_problem(self._places.refusal(), scope, receive, send)
            return

        async def send_in_time(message: Message) -> None:
            with fail_after(READER_S):
                await send(message)

        self._places.taken += 1
        try:
            await super().__call__(scope, receive, send_in_time)
        except TimeoutError:  # a reader that returns before the end has the connection broken off
            structlog.get_logger().warning("export_abandoned", detail=f"its reader took nothing for {READER_S:g} s")
        finally:
            self._places.taken -= 1
            with CancelScope(shield=True):
                await run_in_threadpool(self._content.close)


def _joined(lines: Generator[str, None, None]) -> Generator[str, None, None]:
    """Join lines, for one at a time would cost a switch of threads each."""
    with closing(lines):
        part: list[str] = []
        for line in lines:
            part.append(line.rstrip("\n"))
            if len(part) == LINES_PER_PART:
                yield "\n".join(part) + "\n"
                part = []
        if part:
            yield "\n".join(part) + "\n"
