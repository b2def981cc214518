# SPDX-License-Identifier: Apache-2.0
"""Queries on the search spaces that tokens said their jobs of a study have."""

from collections.abc import Sequence

from sqlalchemy import Connection, delete, select

from .database import upsert
from .rows import SaidSpaceRow, all_of
from .tables import said_spaces

OPEN = ""
"""Stands for no token: the service is open then, and all that say a space are one."""


def of_token(connection: Connection, study_id: str, token_id: str | None) -> Sequence[SaidSpaceRow]:
    """Return the spaces that a token said for a study, the newest first."""
    own = said_spaces.c
    query = select(said_spaces).where(own.study_id == study_id, own.token_id == (token_id or OPEN))
    return all_of(connection.execute(query.order_by(own.said_unix_s.desc(), own.space_digest)), SaidSpaceRow)


def put(connection: Connection, row: SaidSpaceRow) -> None:
    """Insert a space, or say it again."""
    upsert(connection, said_spaces, [row])


def forget(connection: Connection, rows: Sequence[SaidSpaceRow]) -> None:
    """Remove spaces of one token and study."""
    if rows:
        own = said_spaces.c
        digests = [row.space_digest for row in rows]
        of_token_here = (own.study_id == rows[0].study_id, own.token_id == rows[0].token_id)
        connection.execute(delete(said_spaces).where(*of_token_here, own.space_digest.in_(digests)))
