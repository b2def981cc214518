# SPDX-License-Identifier: Apache-2.0
"""Queries on the names that tokens gave a study's model and machines, and on the one that most of them gave."""

from collections.abc import Collection, Sequence

from sqlalchemy import Column, Connection, delete, func, select

from .database import upsert
from .rows import SaidNamesRow, all_of, one_of
from .tables import said_names, studies

OPEN = ""
"""Stands for no token: the service is open then, and all that give names are one."""


def of_token(connection: Connection, study_id: str, token_id: str | None) -> SaidNamesRow | None:
    """Return the names that a token gave in a study."""
    own = said_names.c
    query = select(said_names).where(own.study_id == study_id, own.token_id == (token_id or OPEN))
    return one_of(connection.execute(query), SaidNamesRow)


def of_study(connection: Connection, study_id: str) -> Sequence[SaidNamesRow]:
    """Return the names that tokens gave in a study, the first to give any first."""
    own = said_names.c
    query = select(said_names).where(own.study_id == study_id).order_by(own.said_unix_s, own.token_id)
    return all_of(connection.execute(query), SaidNamesRow)


def put(connection: Connection, row: SaidNamesRow) -> None:
    """Insert or replace the names that a token gave in a study."""
    upsert(connection, said_names, [row])


def forget_token(connection: Connection, token_id: str) -> Sequence[str]:
    """Delete the names that a token gave; returns the ids of the studies that had any."""
    mine = said_names.c.token_id == token_id
    concerned = connection.execute(select(said_names.c.study_id).where(mine)).scalars().all()
    connection.execute(delete(said_names).where(mine))
    return concerned


def of_most(
    connection: Connection, column: Column[str], fingerprint: Column[str], wanted: Collection[str]
) -> dict[str, str]:
    """Return for each of some fingerprints the name that most tokens gave, in whichever study; the oldest of equals.

    Args:
        connection: Connection to the database.
        column: Column of `said_names` with the name.
        fingerprint: Column of `studies`: of the hardware, or of the model.
        wanted: The fingerprints.
    """
    votes = (
        select(
            fingerprint.label("fingerprint"),
            column.label("name"),
            func.count(said_names.c.token_id.distinct()).label("tokens"),
            func.min(said_names.c.said_unix_s).label("first"),
        )
        .select_from(studies.join(said_names))
        .where(fingerprint.in_(wanted), column.is_not(None))
        .group_by(fingerprint, column)
        .subquery()
        .c
    )
    order = (votes.tokens.desc(), votes.first, votes.name)
    place = func.row_number().over(partition_by=votes.fingerprint, order_by=order).label("place")
    ranked = select(votes.fingerprint, votes.name, place).subquery().c
    rows = connection.execute(select(ranked.fingerprint, ranked.name).where(ranked.place == 1))
    return {row.fingerprint: row.name for row in rows}
