# SPDX-License-Identifier: Apache-2.0
"""Queries on studies."""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Exists,
    Select,
    and_,
    case,
    delete,
    exists,
    func,
    insert,
    select,
    tuple_,
)

from .database import whole_sum
from .keys import parameters, wanted
from .rows import ModelRow, NeighbourRow, StudyRow, all_of, columns_of, one_of
from .tables import config_summaries, job_records, said_names, studies

Position = tuple[float, str]
"""Begin of a page: after the study that was created then and has this id; the newest come first."""


def get(connection: Connection, study_id: str) -> StudyRow | None:
    """Return the study's row."""
    return one_of(connection.execute(select(studies).where(studies.c.study_id == study_id)), StudyRow)


def existing(connection: Connection, study_ids: Collection[str]) -> set[str]:
    """Return those ids that are a study's."""
    return set(connection.execute(EXISTING, parameters([(study_id,) for study_id in study_ids])).scalars())


def _existing() -> Select[Any]:
    rows, is_wanted = wanted((studies.c.study_id,))
    return select(studies.c.study_id).select_from(rows.join(studies, is_wanted))


EXISTING = _existing()


def find(connection: Connection, key_digest: str) -> StudyRow | None:
    """Return the row of the study with this key."""
    return one_of(connection.execute(select(studies).where(studies.c.key_digest == key_digest)), StudyRow)


def add(connection: Connection, row: StudyRow) -> None:
    """Insert a study; IntegrityError if its key is there."""
    connection.execute(insert(studies), columns_of([row]))


def complete(connection: Connection, study_id: str, values: Mapping[str, str | None]) -> None:
    """Set the facts that were not known when the study was created."""
    connection.execute(studies.update().where(studies.c.study_id == study_id).values(**values))


def delete_one(connection: Connection, study_id: str) -> bool:
    """Delete a study with all that belongs to it; False if there is none."""
    return connection.execute(delete(studies).where(studies.c.study_id == study_id)).rowcount > 0


def page(connection: Connection, equal: Mapping[str, str], after: Position | None, limit: int) -> Sequence[StudyRow]:
    """Return studies, the newest first.

    Args:
        connection: Connection to the database.
        equal: Columns and the values that they must have.
        after: The last study of the page before.
        limit: Maximum number of studies.
    """
    order = (studies.c.created_unix_s, studies.c.study_id)
    query = select(studies).order_by(*(column.desc() for column in order)).limit(limit)
    for name, value in equal.items():
        query = query.where(studies.c[name] == value)
    if after is not None:
        query = query.where(tuple_(*order) < tuple_(*after))
    return all_of(connection.execute(query), StudyRow)


def all_ids(connection: Connection) -> Sequence[str]:
    """Return the ids of all studies, the oldest first."""
    return connection.execute(select(studies.c.study_id).order_by(studies.c.created_unix_s)).scalars().all()


def counts(connection: Connection, study_ids: Collection[str]) -> dict[str, tuple[int, int]]:
    """Return for each study with results that count how many there are, and of how many jobs."""
    own = job_records.c
    query = select(own.study_id, whole_sum(own.trials), func.count())
    query = query.where(own.study_id.in_(study_ids), own.trials > 0).group_by(own.study_id)
    return {study_id: (trials, jobs) for study_id, trials, jobs in connection.execute(query)}


def models_named(
    connection: Connection, model_name: str, target: str, limit: int, hardware: str | None = None
) -> tuple[Sequence[ModelRow], int]:
    """Return the models with results that go by a name, and how many there are.

    Those that were measured on the hardware come first, then those that the most tokens call so, then those with the
    most results: a token that invents others does not hide them.
    """
    named, givers = studies.alias("named"), said_names.c
    tokens = (
        select(func.count(givers.token_id.distinct()))
        .select_from(named.join(said_names))
        .where(named.c.model == studies.c.model, named.c.target == target, givers.model_name == model_name)
        .correlate(studies)
        .scalar_subquery()
    )
    trials = whole_sum(job_records.c.trials)
    is_here = func.max(case((studies.c.hardware == hardware, 1), else_=0))
    query = (
        select(studies.c.model, studies.c.model_name, trials.label("trials"))
        .select_from(studies.join(job_records))
        .where(studies.c.model_name == model_name, studies.c.target == target, job_records.c.trials > 0)
        .group_by(studies.c.model, studies.c.model_name)
    )
    number = connection.execute(select(func.count()).select_from(query.subquery())).scalar_one()
    order = (is_here.desc(), tokens.desc(), trials.desc(), studies.c.model)
    return all_of(connection.execute(query.order_by(*order).limit(limit)), ModelRow), number


def neighbours(
    connection: Connection, *, model: str | None, hardware: str | None, surface: tuple[str, int], limit: int
) -> Sequence[NeighbourRow]:
    """Return studies with promising configs that share the model or the hardware.

    Those with a confirmed config come first, then those with an adopted one, then the newest.

    Args:
        connection: Connection to the database.
        model: A model's fingerprint, or None.
        hardware: A fingerprint, or None.
        surface: Target and surface version, which must be the same.
        limit: Maximum number of each kind.
    """
    shared = {"model": model, "hardware": hardware}
    conditions = [studies.c[name] == value for name, value in shared.items() if value is not None]
    is_measured = (
        studies.c.target == surface[0],
        studies.c.surface_version == surface[1],
        _has(config_summaries.c.is_promising),
    )
    rows: dict[str, NeighbourRow] = {}
    for condition in conditions:
        has_confirmed = _has(config_summaries.c.is_confirmed).label("has_confirmed")
        has_adopted = _has(config_summaries.c.is_promising, config_summaries.c.adopted > 0).label("has_adopted")
        query = select(studies, has_confirmed, has_adopted).where(and_(condition, *is_measured))
        order = (has_confirmed.desc(), has_adopted.desc(), studies.c.created_unix_s.desc())
        newest = query.order_by(*order).limit(limit)
        rows.update({row.study_id: row for row in all_of(connection.execute(newest), NeighbourRow)})
    return tuple(rows.values())


def _has(flag: Column[bool], *conditions: ColumnElement[bool]) -> Exists:
    return exists().where(config_summaries.c.study_id == studies.c.study_id, flag.is_(True), *conditions)


def facts_of_model(connection: Connection, model: str) -> tuple[int, ...] | None:
    """Return the gradient bytes that some job reported for a model, None if none did."""
    known = and_(studies.c.model == model, studies.c.gradient_bytes != "[]")
    text = connection.execute(select(studies.c.gradient_bytes).where(known).limit(1)).scalar_one_or_none()
    return None if text is None else tuple(json.loads(text))
