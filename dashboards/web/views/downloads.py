# SPDX-License-Identifier: Apache-2.0
"""Tables of the pages as CSV files."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated

from fastapi import Path
from starlette.requests import Request
from starlette.responses import Response

from ringtune.dashboards.web.tables import Row, config_table, csv_reply, job_table, result_table, study_table
from ringtune.service.domain.overview import MAX_PAGE, ShownStudy
from ringtune.service.errors import NotFound

from .dependencies import READERS_PAGE, AskedStudiesDep, OverviewDep, new_router, on_page_threads

TABLES: Mapping[str, Callable[[ShownStudy], Sequence[Row]]] = MappingProxyType(
    {"jobs": job_table, "configs": config_table, "results": result_table}
)

router = new_router()


@router.get("/studies.csv", dependencies=READERS_PAGE)
@on_page_threads
def studies_csv(request: Request, overview: OverviewDep, asked: AskedStudiesDep) -> Response:
    """Return the studies that a list shows, on all its pages up to the most that are read at once."""
    del request
    return csv_reply("studies", study_table(overview.studies(asked.wanted, asked.order, limit=MAX_PAGE).items))


@router.get("/studies/{study_id}/{table}.csv", dependencies=READERS_PAGE)
@on_page_threads
def study_csv(
    request: Request,
    overview: OverviewDep,
    study_id: Annotated[str, Path(max_length=64)],
    table: Annotated[str, Path(max_length=64)],
) -> Response:
    """Return a table of a study."""
    del request
    if table not in TABLES:
        raise NotFound(f"a study has no table {table[:64]!r}; it has: {', '.join(TABLES)}")
    return csv_reply(f"{table}-{study_id[:8]}", TABLES[table](overview.study(study_id)))
