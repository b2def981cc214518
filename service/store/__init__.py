# SPDX-License-Identifier: Apache-2.0
"""The store: tables, and one module of queries per aggregate, the same for SQLite and PostgreSQL.

It decides nothing: what a result is worth, who gets which config and what is recommended is the domain's. Functions
take an open connection, so that the caller says what is one transaction.
"""

from .database import Database
from .readiness import Readiness
from .schema import is_current, migrate

__all__ = ["Database", "Readiness", "is_current", "migrate"]
