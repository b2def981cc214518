# SPDX-License-Identifier: Apache-2.0
"""Queries for people who look through the store: studies searched, sorted and counted, and the contents of one.

All of them only read. A page of studies is cut in the database: in the order of creation along an index, in the other
orders by the derived rows of each study. The wide columns (space, sizes of tensors) are never read for a list.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    ScalarSelect,
    Select,
    case,
    exists,
    func,
    null,
    or_,
    select,
)

from .clock import UnixNow
from .rows import AgedReport, AgedRun, CountedRow, ListedStudyRow, StudyHead, all_of
from .said_names import of_most
from .summaries import rank
from .summary_rows import UNCLEAR, AgedConfig, NamedReporter
from .tables import (
    config_summaries,
    job_facts,
    job_records,
    reporter_summaries,
    reports,
    runs,
    said_names,
    studies,
    tokens,
)

NAMES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {"model": ("model_name", "model_name"), "hardware": ("hardware_name", "machines_text")}
)
"""Columns with people's names of a model or hardware, by the column of its fingerprint; the first that is set goes."""
LISTED = tuple(studies.c[field.name] for field in fields(StudyHead))


@dataclass(frozen=True)
class Wanted:
    """The filter of studies; None and empty take all.

    Attributes:
        text: In a name, or where a fingerprint or the id begins.
        target: The tuned target.
        model: Fingerprint.
        hardware: Fingerprint.
        finding: Verdicts of the jobs: `confirmed`, `adopted`, `kept` (none adopted), or `open` (no verdict).
    """

    text: str = ""
    target: str | None = None
    model: str | None = None
    hardware: str | None = None
    finding: str | None = None


def page(connection: Connection, wanted: Wanted, order: str, *, offset: int, limit: int) -> Sequence[ListedStudyRow]:
    """Return studies without their spaces and sizes; see `page_query`."""
    return all_of(connection.execute(page_query(wanted, order, offset=offset, limit=limit)), ListedStudyRow)


def page_query(wanted: Wanted, order: str, *, offset: int, limit: int | None) -> Select[Any]:
    """Return the query behind `page`.

    Args:
        wanted: The filter.
        order: A name in `ORDERS`, with a minus in front for the other direction.
        offset: Number of studies to skip.
        limit: Maximum number of studies; None for all.
    """
    keys = ORDERS[order.removeprefix("-")]()
    directed = [key.asc() if order.startswith("-") else key.desc() for key in keys]
    last = studies.c.study_id.asc() if order.startswith("-") else studies.c.study_id.desc()
    query = select(*LISTED, (UnixNow() - studies.c.created_unix_s).label("age_s"))
    query = query.where(*_conditions(wanted)).order_by(*(key.nulls_last() for key in directed), last)
    if order.removeprefix("-") == "created":  # without "nulls last" the order is the index's, and no sort is needed
        query = query.order_by(None).order_by(*directed, last)
    return query.offset(offset).limit(limit)


def these(connection: Connection, study_ids: Collection[str]) -> Sequence[ListedStudyRow]:
    """Return these studies as `page` does, in no order."""
    query = select(*LISTED, (UnixNow() - studies.c.created_unix_s).label("age_s"))
    return all_of(connection.execute(query.where(studies.c.study_id.in_(study_ids))), ListedStudyRow)


def count(connection: Connection, wanted: Wanted) -> int:
    """Return how many studies there are."""
    query = select(func.count()).select_from(studies).where(*_conditions(wanted))
    return int(connection.execute(query).scalar_one())


def targets(connection: Connection) -> Sequence[str]:
    """Return the tuned targets, models and hardware of all studies."""
    return connection.execute(select(studies.c.target).distinct().order_by(studies.c.target)).scalars().all()


def layouts(connection: Connection, limit: int) -> Sequence[tuple[int, ...]]:
    """Return the layouts of studies, ranks per host."""
    texts = connection.execute(select(studies.c.layout).distinct().limit(limit)).scalars()
    return [tuple(json.loads(text)) for text in texts]


def newest_results(connection: Connection, study_id: str, job_id: str | None, limit: int) -> Sequence[AgedReport]:
    """Return the newest results of a study, of one of its jobs if one is named, the oldest first."""
    query = select(reports, (UnixNow() - reports.c.received_unix_s).label("age_s"))
    query = query.where(reports.c.study_id == study_id)
    if job_id is not None:
        query = query.where(reports.c.job_id == job_id)
    return all_of(connection.execute(query.order_by(reports.c.number.desc()).limit(limit)), AgedReport)[::-1]


def count_results(connection: Connection, study_id: str) -> int:
    """Return how many results a study has, those that do not count included."""
    query = select(func.count()).select_from(reports).where(reports.c.study_id == study_id)
    return int(connection.execute(query).scalar_one())


def configs(connection: Connection, study_id: str, limit: int) -> Sequence[AgedConfig]:
    """Return a study's configs over all jobs: those that tests adopted, then those to be tested."""
    own = config_summaries.c
    query = select(config_summaries, (UnixNow() - own.newest_unix_s).label("age_s")).where(own.study_id == study_id)
    order = (own.is_promising.desc(), (own.adopted > 0).desc(), *rank(config_summaries))
    return all_of(connection.execute(query.order_by(*order).limit(limit)), AgedConfig)


def stands(connection: Connection, study_id: str, limit: int) -> Sequence[NamedReporter]:
    """Return a study's rows per reporter, those with paired tests first."""
    own = reporter_summaries.c
    query = (
        select(reporter_summaries, tokens.c.name.label("token_name"))
        .select_from(reporter_summaries.outerjoin(tokens, tokens.c.token_id == own.token_id))
        .where(own.study_id == study_id)
        .order_by(own.tests.desc(), own.ci_low.desc(), own.reporter, own.config_digest)
        .limit(limit)
    )
    return all_of(connection.execute(query), NamedReporter)


def count_telling(connection: Connection, study_id: str) -> dict[str, int]:
    """Return for each config of a study how many reporters say anything of it, by its digest."""
    own = reporter_summaries.c
    query = select(own.config_digest, func.count()).where(own.study_id == study_id, own.stand != UNCLEAR)
    return {digest: int(count) for digest, count in connection.execute(query.group_by(own.config_digest))}


def runs_of(connection: Connection, study_id: str, limit: int) -> Sequence[AgedRun]:
    """Return the newest whole logs of a study."""
    query = select(runs, (UnixNow() - runs.c.received_unix_s).label("age_s")).where(runs.c.study_id == study_id)
    query = query.order_by(runs.c.received_unix_s.desc(), runs.c.run_id).limit(limit)
    return all_of(connection.execute(query), AgedRun)


def count_configs(connection: Connection, study_id: str) -> int:
    """Return how many configs a study measured."""
    query = select(func.count()).select_from(config_summaries).where(config_summaries.c.study_id == study_id)
    return int(connection.execute(query).scalar_one())


def count_runs(connection: Connection, study_id: str) -> int:
    """Return how many whole logs a study has."""
    query = select(func.count()).select_from(runs).where(runs.c.study_id == study_id)
    return int(connection.execute(query).scalar_one())


def hardware_names(connection: Connection, fingerprints: Collection[str]) -> dict[str, tuple[str | None, str | None]]:
    """Return the name that most tokens give hardware, in whichever study, and its machines in words, by fingerprint."""
    own = said_names.c
    names, machines = (
        of_most(connection, column, studies.c.hardware, fingerprints)
        for column in (own.hardware_name, own.machines_text)
    )
    return {fingerprint: (names.get(fingerprint), machines.get(fingerprint)) for fingerprint in fingerprints}


def hardware(connection: Connection, text: str, *, offset: int, limit: int) -> Sequence[CountedRow]:
    """Return hardware with a name of it, its studies and its models, that with the most models first."""
    found = all_of(connection.execute(_grouped("hardware", text).offset(offset).limit(limit)), CountedRow)
    names = hardware_names(connection, {row.fingerprint for row in found})
    return [
        replace(row, name=name or machines, machines=machines)
        for row in found
        for name, machines in [names[row.fingerprint]]
    ]


def models(connection: Connection, text: str, limit: int) -> Sequence[CountedRow]:
    """Return models that were measured, that on the most hardware first."""
    found = all_of(connection.execute(_grouped("model", text).limit(limit)), CountedRow)
    names = of_most(connection, said_names.c.model_name, studies.c.model, {row.fingerprint for row in found})
    return [replace(row, name=names.get(row.fingerprint)) for row in found]


def _grouped(by: str, text: str) -> Select[Any]:
    """Return studies counted by a fingerprint, without names; `others` counts the fingerprints of the other kind."""
    other = {"hardware": "model", "model": "hardware"}[by]
    fingerprint, names = studies.c[by], NAMES[by]
    others = func.count(studies.c[other].distinct())
    name = func.coalesce(*(func.min(studies.c[column]) for column in names))
    query = select(
        fingerprint.label("fingerprint"),
        null().label("name"),
        null().label("machines"),
        func.count().label("studies"),
        others.label("others"),
    )
    if text:
        named = studies.alias("named").c  # of every match anywhere all studies are counted
        in_names = [named[name].icontains(text, autoescape=True) for name in names]
        is_such = or_(*in_names, named[by].startswith(text, autoescape=True))
        query = query.where(fingerprint.in_(select(named[by]).where(is_such)))
    return query.group_by(fingerprint).order_by(others.desc(), func.count().desc(), name, fingerprint)


def _conditions(wanted: Wanted) -> list[ColumnElement[bool]]:
    own = studies.c
    equal = {"target": wanted.target, "model": wanted.model, "hardware": wanted.hardware}
    found = [own[name] == value for name, value in equal.items() if value]
    if wanted.text:
        names = [own[name] for columns in NAMES.values() for name in columns]
        in_names = [column.icontains(wanted.text, autoescape=True) for column in names]
        begins = [column.startswith(wanted.text, autoescape=True) for column in (own.study_id, own.model, own.hardware)]
        found.append(or_(*in_names, *begins))
    if wanted.finding:
        found += FINDINGS[wanted.finding]()
    return found


def _is_confirmed() -> ColumnElement[bool]:
    own = config_summaries.c
    return exists().where(own.study_id == studies.c.study_id, own.is_confirmed.is_(True)).correlate(studies)


def _has_verdict(said: str, tested: str) -> ColumnElement[bool]:
    """Tell whether a job of the study said so of itself, or a reporter's paired tests do."""
    facts, stands = job_facts.c, reporter_summaries.c
    by_job = exists().where(facts.study_id == studies.c.study_id, facts.state == said).correlate(studies)
    by_test = exists().where(stands.study_id == studies.c.study_id, stands.stand == tested).correlate(studies)
    return or_(by_job, by_test)


def _has_adopted() -> ColumnElement[bool]:
    return _has_verdict("adopted", "adopted")


def _has_kept() -> ColumnElement[bool]:
    return _has_verdict("keeping_default", "kept")


def _of_the_best(column: ColumnElement[Any]) -> ScalarSelect[Any]:
    """Return a column of the best config that a study's paired tests adopted."""
    own = config_summaries.c
    return (
        select(column)
        .where(own.study_id == studies.c.study_id, own.is_promising.is_(True), own.adopted > 0)
        .order_by(*rank(config_summaries))
        .limit(1)
        .correlate(studies)
        .scalar_subquery()
    )


def _paired_evidence() -> tuple[ColumnElement[Any], ...]:
    """Return the lower bound of a confirmed config; of priors, which follow, how many reporters' tests adopted one.

    Claims of windows or of a single reporter do not change the order.
    """
    own = config_summaries.c
    return _of_the_best(case((own.is_confirmed, own.ci_low))), _of_the_best(own.adopted)


def _newest_result() -> ScalarSelect[Any]:
    """Return when the newest result that counts came: an import has old ones, newly numbered."""
    query = select(func.max(job_records.c.used_unix_s)).where(job_records.c.study_id == studies.c.study_id)
    return query.correlate(studies).scalar_subquery()


ORDERS: Mapping[str, Callable[[], Sequence[ColumnElement[Any]]]] = MappingProxyType(
    {
        "created": lambda: (studies.c.created_unix_s,),
        "activity": lambda: (_newest_result(),),
        "speedup": _paired_evidence,
        "model": lambda: (studies.c.model_name,),
        "hardware": lambda: (func.coalesce(studies.c.hardware_name, studies.c.machines_text),),
    }
)
"""Columns by which studies can be sorted; the largest comes first."""
FINDINGS: Mapping[str, Callable[[], list[ColumnElement[bool]]]] = MappingProxyType(
    {
        "confirmed": lambda: [_is_confirmed()],
        "adopted": lambda: [_has_adopted()],
        "kept": lambda: [_has_kept(), ~_has_adopted()],
        "open": lambda: [~_has_kept(), ~_has_adopted()],
    }
)
