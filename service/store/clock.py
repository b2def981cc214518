# SPDX-License-Identifier: Apache-2.0
"""The database's clock: the only one that leases, ages and the ledger know."""

from typing import Any

from sqlalchemy import Connection, Double, select
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement


class UnixNow(FunctionElement[float]):
    """Seconds since 1970, now, as the database has it."""

    name = "unix_now"
    type = Double()
    inherit_cache = True


@compiles(UnixNow, "sqlite")
def _sqlite_now(_element: UnixNow, _compiler: Any, **_options: Any) -> str:
    return "((julianday('now') - 2440587.5) * 86400.0)"


@compiles(UnixNow, "postgresql")
def _postgresql_now(_element: UnixNow, _compiler: Any, **_options: Any) -> str:
    return "(extract(epoch from clock_timestamp())::double precision)"


def now_unix_s(connection: Connection) -> float:
    """Return the database's time, seconds since 1970."""
    return float(connection.execute(select(UnixNow())).scalar_one())
