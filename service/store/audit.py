# SPDX-License-Identifier: Apache-2.0
"""The audit: what operators did, and what was removed. Rows are only added."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, insert, select

from .clock import UnixNow
from .rows import Row
from .tables import audit


def record(connection: Connection, event: str, subject: str, detail: Mapping[str, Any]) -> None:
    """Note that something happened, at the database's time."""
    values = {"event": event, "subject": subject, "detail": json.dumps(dict(detail), sort_keys=True)}
    connection.execute(insert(audit).values(happened_unix_s=UnixNow(), **values))


def newest(connection: Connection, limit: int) -> Sequence[Row]:
    """Return the newest rows, the newest first."""
    return connection.execute(select(audit).order_by(audit.c.number.desc()).limit(limit)).mappings().all()
