# SPDX-License-Identifier: Apache-2.0
"""Queries on tokens; the secret itself is never stored."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, exists, insert, select, update

from .clock import UnixNow
from .rows import AgedToken, TokenRow, all_of, columns_of, one_of
from .tables import tokens


def add(connection: Connection, row: TokenRow) -> None:
    """Insert a token."""
    connection.execute(insert(tokens), columns_of([row]))


def get(connection: Connection, token_id: str) -> AgedToken | None:
    """Return the token's row."""
    query = select(tokens, _age()).where(tokens.c.token_id == token_id)
    return one_of(connection.execute(query), AgedToken)


def everyone(connection: Connection) -> Sequence[AgedToken]:
    """Return all tokens, the newest first."""
    query = select(tokens, _age()).order_by(tokens.c.created_unix_s.desc(), tokens.c.token_id)
    return all_of(connection.execute(query), AgedToken)


def exist(connection: Connection) -> bool:
    """Tell whether any token was created and not revoked."""
    return bool(connection.execute(select(exists().where(tokens.c.revoked_unix_s.is_(None)))).scalar_one())


def revoke(connection: Connection, token_id: str, now_unix_s: float) -> None:
    """Make a token invalid, if it is not already."""
    valid = (tokens.c.token_id == token_id, tokens.c.revoked_unix_s.is_(None))
    connection.execute(update(tokens).where(*valid).values(revoked_unix_s=now_unix_s))


def declare(connection: Connection, token_id: str, *, has_many_jobs: bool) -> None:
    """Say whether a token stands for many independent jobs."""
    connection.execute(update(tokens).where(tokens.c.token_id == token_id).values(has_many_jobs=has_many_jobs))


def _age() -> Any:
    return (UnixNow() - tokens.c.created_unix_s).label("age_s")
