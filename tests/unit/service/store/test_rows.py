# SPDX-License-Identifier: Apache-2.0
"""Typed rows: each class of a table has its columns, by name, type and whether they may be empty."""

import types
from dataclasses import fields
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from sqlalchemy import BigInteger, Boolean, Double, Integer, Table, Text
from sqlalchemy.types import TypeEngine

from ringtune.service.store import job_records, rows, summary_rows, tables

TABLES: tuple[tuple[type[Any], Table], ...] = (
    (rows.StudyRow, tables.studies),
    (rows.TrialRow, tables.trials),
    (rows.QueuedSuggestionRow, tables.queued_suggestions),
    (rows.ReportRow, tables.reports),
    (rows.RunRow, tables.runs),
    (rows.JobFactsRow, tables.job_facts),
    (rows.SaidNamesRow, tables.said_names),
    (rows.SaidSpaceRow, tables.said_spaces),
    (rows.TokenRow, tables.tokens),
    (rows.TokenUsageRow, tables.token_usage),
    (rows.AuditRow, tables.audit),
    (summary_rows.JobSummary, tables.job_summaries),
    (job_records.JobRecord, tables.job_records),
    (summary_rows.ReporterRow, tables.reporter_summaries),
    (summary_rows.ConfigSummary, tables.config_summaries),
)
OTHERS = {"jobs", "page_sessions"}
"""Tables whose rows are never read as they are."""


def python_type(column: TypeEngine[Any]) -> type:
    """Return the type of a column's values."""
    known = ((Boolean, bool), ((BigInteger, Integer), int), (Double, float), (Text, str))
    return next((found for kinds, found in known if isinstance(column, kinds)), str)


def declared(hint: Any) -> tuple[type, bool]:
    """Return the type of a field, and whether it may be None."""
    parts = set(get_args(hint)) if get_origin(hint) in (Union, types.UnionType) else {hint}
    (kind,) = parts - {types.NoneType}
    return (str if get_origin(kind) is Literal else kind), types.NoneType in parts


@pytest.mark.parametrize(("kind", "table"), TABLES, ids=lambda part: getattr(part, "name", ""))
def test_a_class_has_the_columns_of_its_table(kind: type[Any], table: Table) -> None:
    """A column that is added, renamed or made nullable without its field fails here, and not at a row."""
    hints = get_type_hints(kind)

    found = {field.name: declared(hints[field.name]) for field in fields(kind)}

    expected = {column.name: (python_type(column.type), bool(column.nullable)) for column in table.c}
    assert expected == found


def test_every_table_has_a_class() -> None:
    """All but those that are only counted, or read beside another."""
    assert set(tables.METADATA.tables) - OTHERS == {table.name for _, table in TABLES}
