# SPDX-License-Identifier: Apache-2.0
"""Many keys in one query: they are one parameter, JSON, which both databases read as a table.

So a query is built once whatever the number of keys, is never too long for SQLite, and is answered by the index that
the keys are in.
"""

import json
from collections.abc import Collection, Sequence
from typing import Any, TypeAlias

from sqlalchemy import ColumnElement, FromClause, String, Text, and_, bindparam, literal_column
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

Key: TypeAlias = tuple[str, ...]

PARAMETER = "wanted_keys"


class _Rows(FunctionElement[Any]):
    """The keys as rows of one column, `value`: a JSON array each."""

    name = "key_rows"
    inherit_cache = True


class _KeyColumn(FunctionElement[str]):
    """One text of the array in a row."""

    name = "key_part"
    type = String()
    inherit_cache = True


@compiles(_Rows, "sqlite")
def _sqlite_rows(element: _Rows, compiler: Any, **options: Any) -> str:
    return f"json_each({compiler.process(element.clauses, **options)})"


@compiles(_Rows, "postgresql")
def _postgresql_rows(element: _Rows, compiler: Any, **options: Any) -> str:
    return f"json_array_elements(CAST({compiler.process(element.clauses, **options)} AS json))"


@compiles(_KeyColumn, "sqlite")
def _sqlite_part(element: _KeyColumn, compiler: Any, **options: Any) -> str:
    value, place = (compiler.process(clause, **options) for clause in element.clauses)
    return f"json_extract({value}, '$[' || {place} || ']')"


@compiles(_KeyColumn, "postgresql")
def _postgresql_part(element: _KeyColumn, compiler: Any, **options: Any) -> str:
    value, place = (compiler.process(clause, **options) for clause in element.clauses)
    return f"({value} ->> {place})"


def wanted(columns: Sequence[ColumnElement[str]]) -> tuple[FromClause, ColumnElement[bool]]:
    """Return the keys as a table, and that a row has one of them in these columns.

    A query with both needs `parameters` when it is executed.
    """
    rows = _Rows(bindparam(PARAMETER, type_=Text())).table_valued("value", name="wanted")
    parts = (column == _KeyColumn(rows.c.value, literal_column(str(place))) for place, column in enumerate(columns))
    return rows, and_(*parts)


def parameters(keys: Collection[Key]) -> dict[str, str]:
    """Return the parameters of a query with `wanted`."""
    return {PARAMETER: json.dumps(sorted(keys))}
