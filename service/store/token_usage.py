# SPDX-License-Identifier: Apache-2.0
"""Queries on the amounts that tokens have stored lately: one row each."""

from collections.abc import Collection, Sequence

from sqlalchemy import Connection, select

from .database import upsert
from .rows import TokenUsageRow, all_of
from .tables import token_usage


def of_tokens(connection: Connection, token_ids: Collection[str]) -> dict[str, TokenUsageRow]:
    """Return the rows of those tokens that have stored anything, by token."""
    query = select(token_usage).where(token_usage.c.token_id.in_(sorted(token_ids)))
    return {row.token_id: row for row in all_of(connection.execute(query), TokenUsageRow)}


def put(connection: Connection, rows: Sequence[TokenUsageRow]) -> None:
    """Insert or replace rows."""
    upsert(connection, token_usage, rows)
