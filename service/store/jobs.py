# SPDX-License-Identifier: Apache-2.0
"""Queries on jobs: each belongs to the token that used its id first."""

from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import Connection, Select, select
from sqlalchemy.dialects import postgresql, sqlite

from .keys import parameters, wanted
from .tables import jobs, reports, runs, trials


def claim(
    connection: Connection,
    tokens: Mapping[str, str | None],
    now_unix_s: float,
    may_begin: Callable[[str | None], bool] = lambda _token_id: True,
) -> dict[str, str | None]:
    """Give jobs that are new to a token, and return the token that each of the jobs belongs to.

    Two transactions that claim the same new job take turns: the second sees the first one's claim.

    Args:
        connection: Connection to the database.
        tokens: Id of the token that uses the job now, by job id; None: without a token.
        now_unix_s: The database's time.
        may_begin: Tells whether a token may begin one job more; without that a job is not among those returned.
    """
    known = owners(connection, tokens)
    new = [job_id for job_id in sorted(set(tokens) - set(known)) if may_begin(tokens[job_id])]
    if not new:
        return known
    kind = sqlite if connection.dialect.name == "sqlite" else postgresql
    rows = [{"job_id": job_id, "token_id": tokens[job_id], "first_unix_s": now_unix_s} for job_id in new]
    connection.execute(kind.insert(jobs).on_conflict_do_nothing(), rows)
    return owners(connection, tokens)


def owners(connection: Connection, job_ids: Mapping[str, object]) -> dict[str, str | None]:
    """Return the token that each of these jobs belongs to, without the jobs that no token used yet."""
    rows = connection.execute(OWNERS, parameters([(job_id,) for job_id in job_ids]))
    return {row.job_id: row.token_id for row in rows}


def _owners() -> Select[Any]:
    rows, is_wanted = wanted((jobs.c.job_id,))
    return select(jobs.c.job_id, jobs.c.token_id).select_from(rows.join(jobs, is_wanted))


OWNERS = _owners()


def delete_unused(connection: Connection, before_unix_s: float) -> int:
    """Delete jobs that began before a time and have no row left; returns how many."""
    nothing_left = [jobs.c.job_id.not_in(select(table.c.job_id)) for table in (reports, runs, trials)]
    return connection.execute(jobs.delete().where(jobs.c.first_unix_s < before_unix_s, *nothing_left)).rowcount
