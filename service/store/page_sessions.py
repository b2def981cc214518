# SPDX-License-Identifier: Apache-2.0
"""Queries on the sessions of browsers; a session's id is never stored, its SHA-256 is the key."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, delete, func, insert, or_, select, update

from .clock import UnixNow
from .rows import NewPageSession, PageSessionRow, all_of, one_of
from .tables import page_sessions, tokens

LOCK = "ringtune page sessions"


def add(connection: Connection, row: NewPageSession) -> None:
    """Insert a session that begins now, at the database's time."""
    values = {**vars(row), "created_unix_s": UnixNow(), "seen_unix_s": UnixNow()}
    connection.execute(insert(page_sessions).values(values))


def get(connection: Connection, session_sha256: str) -> PageSessionRow | None:
    """Return a session's row."""
    query = _with_tokens().where(page_sessions.c.session_sha256 == session_sha256)
    return one_of(connection.execute(query), PageSessionRow)


def newest(connection: Connection, limit: int) -> Sequence[PageSessionRow]:
    """Return the sessions that were used last, the latest first."""
    order = (page_sessions.c.seen_unix_s.desc(), page_sessions.c.session_sha256)
    return all_of(connection.execute(_with_tokens().order_by(*order).limit(limit)), PageSessionRow)


def count(connection: Connection, max_age_s: float, max_idle_s: float) -> int:
    """Return how many sessions are within both limits."""
    query = select(func.count()).select_from(page_sessions).where(~_is_over(max_age_s, max_idle_s))
    return int(connection.execute(query).scalar_one())


def touch(connection: Connection, session_sha256: str) -> None:
    """Note that a session is used now."""
    used = update(page_sessions).where(page_sessions.c.session_sha256 == session_sha256)
    connection.execute(used.values(seen_unix_s=UnixNow()))


def delete_one(connection: Connection, session_sha256: str) -> int:
    """Remove a session; returns how many rows that was."""
    return _deleted(connection, page_sessions.c.session_sha256 == session_sha256)


def delete_named(connection: Connection, handle: str) -> int:
    """Remove the session whose hash begins with a handle; returns how many rows that was."""
    return _deleted(connection, page_sessions.c.session_sha256.startswith(handle, autoescape=True))


def delete_of_token(connection: Connection, token_id: str) -> int:
    """Remove all sessions of a token; returns how many rows that was."""
    return _deleted(connection, page_sessions.c.token_id == token_id)


def delete_beyond(connection: Connection, token_id: str, kept: int) -> int:
    """Remove the sessions of a token but those used last; returns how many rows that was."""
    order = (page_sessions.c.seen_unix_s.desc(), page_sessions.c.session_sha256)
    of_token = select(page_sessions.c.session_sha256).where(page_sessions.c.token_id == token_id)
    last = of_token.order_by(*order).limit(kept)
    beyond = page_sessions.c.session_sha256.not_in(last)
    return _deleted(connection, page_sessions.c.token_id == token_id, beyond)


def delete_over(connection: Connection, max_age_s: float, max_idle_s: float) -> int:
    """Remove the sessions beyond a limit; returns how many rows that was."""
    return _deleted(connection, _is_over(max_age_s, max_idle_s))


def _with_tokens() -> Any:
    joined = page_sessions.outerjoin(tokens, tokens.c.token_id == page_sessions.c.token_id)
    known = (tokens.c.name, tokens.c.scopes, tokens.c.revoked_unix_s, tokens.c.created_unix_s.label("token_unix_s"))
    ages = (_since(page_sessions.c.created_unix_s, "age_s"), _since(page_sessions.c.seen_unix_s, "idle_s"))
    return select(page_sessions, *known, *ages).select_from(joined)


def _since(column: Any, name: str) -> Any:
    return (UnixNow() - column).label(name)


def _is_over(max_age_s: float, max_idle_s: float) -> ColumnElement[bool]:
    is_old = page_sessions.c.created_unix_s <= UnixNow() - max_age_s
    return or_(is_old, page_sessions.c.seen_unix_s <= UnixNow() - max_idle_s)


def _deleted(connection: Connection, *conditions: ColumnElement[bool]) -> int:
    return connection.execute(delete(page_sessions).where(*conditions)).rowcount
