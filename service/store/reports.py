# SPDX-License-Identifier: Apache-2.0
"""Queries on the ledger: rows are added, read in their order, and removed whole."""

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import fields
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, delete, func, insert, or_, select

from .clock import now_unix_s
from .keys import Key, parameters, wanted
from .rows import AgedReport, NewReport, ReportRow, RunRow, StoredReport, all_of, columns_of, one_of
from .tables import reports, runs

LOCK = "ringtune ledger"
"""Name of the lock of the ledger's writers, so that numbers become visible in their order."""
CHUNK = 500
"""Rows per read."""
COUNTED = ("new", "late")
"""The statuses of results that count; the others are kept as data alone."""


def stored(connection: Connection, keys: Collection[Key]) -> dict[Key, StoredReport]:
    """Return the stored results of trials, by study and trial id."""
    rows = all_of(connection.execute(STORED, parameters(keys)), StoredReport)
    return {(row.study_id, row.trial_id): row for row in rows}


def _stored() -> Select[Any]:
    rows, is_wanted = wanted((reports.c.study_id, reports.c.trial_id))
    return select(*(reports.c[field.name] for field in fields(StoredReport))).select_from(rows.join(reports, is_wanted))


STORED = _stored()


def add(connection: Connection, rows: Sequence[NewReport]) -> None:
    """Append rows; IntegrityError if one is there."""
    if rows:
        connection.execute(insert(reports), columns_of(rows))


def of_study(connection: Connection, study_id: str) -> Iterator[ReportRow]:
    """Yield a study's rows in the order in which they were stored."""
    after = 0
    query = select(reports).where(reports.c.study_id == study_id).order_by(reports.c.number).limit(CHUNK)
    while rows := all_of(connection.execute(query.where(reports.c.number > after)), ReportRow):
        yield from rows
        after = rows[-1].number


def newest_samples(connection: Connection, study_id: str, limit: int) -> Sequence[ReportRow]:
    """Return a study's newest valid results that count, the oldest of them first."""
    usable = (reports.c.study_id == study_id, reports.c.valid.is_(True), reports.c.status.in_(COUNTED))
    query = select(reports).where(*usable).order_by(reports.c.number.desc()).limit(limit)
    return all_of(connection.execute(query), ReportRow)[::-1]


def since(connection: Connection, number: int, limit: int) -> Sequence[AgedReport]:
    """Return rows after a number."""
    query = select(reports).where(reports.c.number > number).order_by(reports.c.number).limit(limit)
    now = now_unix_s(connection)
    query = query.add_columns((now - reports.c.received_unix_s).label("age_s"))
    return all_of(connection.execute(query), AgedReport)


def newest_number(connection: Connection) -> int:
    """Return the largest number, 0 for an empty ledger."""
    return int(connection.execute(select(func.coalesce(func.max(reports.c.number), 0))).scalar_one())


def studies_not_kept(connection: Connection, before_unix_s: float, number: int) -> Sequence[str]:
    """Return the ids of studies that have rows stored before a time, or up to a number."""
    is_old = _is_not_kept(before_unix_s, number)
    return connection.execute(select(reports.c.study_id).distinct().where(is_old)).scalars().all()


def last_beyond(connection: Connection, kept: int) -> int:
    """Return the number of the newest row beyond the `kept` newest ones, 0 if there are no more."""
    query = select(reports.c.number).order_by(reports.c.number.desc()).offset(kept).limit(1)
    return connection.execute(query).scalar_one_or_none() or 0


def newest_time(connection: Connection, until_unix_s: float) -> float | None:
    """Return when the newest result came that came up to a time; None if there is none."""
    query = select(func.max(reports.c.received_unix_s)).where(reports.c.received_unix_s <= until_unix_s)
    newest: float | None = connection.execute(query).scalar_one()
    return newest


def count_between(connection: Connection, from_unix_s: float, before_unix_s: float) -> int:
    """Return how many results came from a time on and before another."""
    came = reports.c.received_unix_s
    query = select(func.count()).select_from(reports).where(came >= from_unix_s, came < before_unix_s)
    return connection.execute(query).scalar_one()


def time_of_share(connection: Connection, before_unix_s: float, share: float) -> float:
    """Return a time up to `before_unix_s` before which no more than a share of all results came.

    Results that came at one moment stay together: the oldest moment's may be more than the share.
    """
    came = reports.c.received_unix_s
    total = connection.execute(select(func.count()).select_from(reports)).scalar_one()
    query = select(came).where(came < before_unix_s).order_by(came)
    bound = connection.execute(query.offset(math.ceil(total * share)).limit(1)).scalar_one_or_none()
    if bound is None:
        return before_unix_s
    oldest = connection.execute(select(func.min(came))).scalar_one()
    if bound > oldest:
        return float(bound)
    following = connection.execute(select(func.min(came)).where(came > oldest)).scalar_one_or_none()
    return before_unix_s if following is None else min(float(following), before_unix_s)


def delete_not_kept(connection: Connection, study_id: str, before_unix_s: float, number: int) -> int:
    """Delete a study's rows stored before a time, or up to a number; returns how many."""
    is_old = (reports.c.study_id == study_id, _is_not_kept(before_unix_s, number))
    return connection.execute(delete(reports).where(*is_old)).rowcount


def studies_of_token(connection: Connection, token_id: str) -> Sequence[str]:
    """Return the ids of studies that have results which came with a token."""
    query = select(reports.c.study_id).distinct().where(reports.c.token_id == token_id)
    return connection.execute(query).scalars().all()


def delete_of_token(connection: Connection, token_id: str) -> int:
    """Delete the results and logs that came with a token; returns how many results."""
    connection.execute(delete(runs).where(runs.c.token_id == token_id))
    return connection.execute(delete(reports).where(reports.c.token_id == token_id)).rowcount


def _is_not_kept(before_unix_s: float, number: int) -> ColumnElement[bool]:
    """Return the condition; numbers do not follow times, for an import has old times and new numbers."""
    return or_(reports.c.received_unix_s < before_unix_s, reports.c.number <= number)


def run(connection: Connection, run_id: str) -> RunRow | None:
    """Return the row of a whole log's run."""
    return one_of(connection.execute(select(runs).where(runs.c.run_id == run_id)), RunRow)


def add_run(connection: Connection, row: RunRow) -> None:
    """Insert a run."""
    connection.execute(insert(runs), columns_of([row]))


def all_runs(connection: Connection, study_id: str) -> Sequence[RunRow]:
    """Return a study's runs, by id."""
    return all_of(connection.execute(select(runs).where(runs.c.study_id == study_id).order_by(runs.c.run_id)), RunRow)
