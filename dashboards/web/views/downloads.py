# SPDX-License-Identifier: Apache-2.0
"""Tables of the pages as CSV files, with all rows that there are: a page may show fewer."""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Annotated

from anyio import CapacityLimiter, to_thread
from fastapi import Path
from starlette.requests import Request
from starlette.responses import Response

from ringtune.dashboards.web.tables import (
    Row,
    config_table,
    csv_lines,
    csv_stream,
    job_table,
    result_table,
    study_table,
)
from ringtune.service.domain.whole_tables import WholeTables
from ringtune.service.errors import NotFound

from .dependencies import READERS_PAGE, AskedStudiesDep, TablesDep, new_router, on_page_threads

Chunks = Iterable[Iterable[Row]]
TABLES: Mapping[str, Callable[[WholeTables, str], Chunks]] = MappingProxyType(
    {
        "jobs": lambda tables, study_id: map(job_table, tables.jobs(study_id)),
        "configs": lambda tables, study_id: map(config_table, tables.configs(study_id)),
        "results": lambda tables, study_id: map(result_table, tables.results(study_id)),
    }
)

router = new_router()


@router.get("/studies.csv", dependencies=READERS_PAGE)
@on_page_threads
def studies_csv(request: Request, tables: TablesDep, asked: AskedStudiesDep) -> Response:
    """Return the studies that a list shows, on all its pages."""
    return _file(request, "studies", csv_lines(map(study_table, tables.studies(asked.wanted, asked.order))))


@router.get("/studies/{study_id}/{table}.csv", dependencies=READERS_PAGE)
@on_page_threads
def study_csv(
    request: Request,
    tables: TablesDep,
    study_id: Annotated[str, Path(max_length=64)],
    table: Annotated[str, Path(max_length=64)],
) -> Response:
    """Return a table of a study, with all its rows."""
    if table not in TABLES:
        raise NotFound(f"a study has no table {table[:64]!r}; it has: {', '.join(TABLES)}")
    knobs = () if table == "jobs" else tables.knobs(study_id)
    return _file(request, f"{table}-{study_id[:8]}", csv_lines(TABLES[table](tables, study_id), knobs))


def _file(request: Request, name: str, lines: Iterator[str]) -> Response:
    """Return a file; its first part is made now, so that a request without an answer is refused."""
    first = next(lines, "")
    return csv_stream(name, _made_in_turn(first, lines, request.app.state.pages.threads))


async def _made_in_turn(first: str, lines: Iterator[str], threads: CapacityLimiter) -> AsyncIterator[str]:
    """Yield a file's parts, each made by one of the threads that pages have while no page waits for it."""
    part: str | None = first
    while part is not None:
        yield part
        part = await to_thread.run_sync(next, lines, None, limiter=threads)
