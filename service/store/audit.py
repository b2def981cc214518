# SPDX-License-Identifier: Apache-2.0
"""The audit: operators' actions and removals. Rows are only added."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, func, insert, select

from .clock import UnixNow, now_unix_s
from .rows import AuditRow, all_of
from .tables import audit


def record(connection: Connection, event: str, subject: str, detail: Mapping[str, Any]) -> None:
    """Note that something happened, at the database's time."""
    values = {"event": event, "subject": subject, "detail": json.dumps(dict(detail), sort_keys=True)}
    connection.execute(insert(audit).values(happened_unix_s=UnixNow(), **values))


def count(connection: Connection, event: str, subject: str, within_s: float) -> int:
    """Return how often something happened to a subject in the last seconds."""
    query = select(func.count()).where(audit.c.event == event, audit.c.subject == subject)
    return connection.execute(query.where(audit.c.happened_unix_s > now_unix_s(connection) - within_s)).scalar_one()


def newest(connection: Connection, limit: int) -> Sequence[AuditRow]:
    """Return the newest rows, the newest first."""
    return all_of(connection.execute(select(audit).order_by(audit.c.number.desc()).limit(limit)), AuditRow)
