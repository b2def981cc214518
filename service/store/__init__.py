# SPDX-License-Identifier: Apache-2.0
"""The store: tables, and one module of queries per aggregate, the same for SQLite and PostgreSQL.

The domain decides: the worth of a result, the config for a job, the recommendation. Functions
take an open connection, so that the caller sets the bounds of a transaction.
"""

from .database import Database
from .readiness import Readiness
from .schema import is_current, migrate

__all__ = ["Database", "Readiness", "is_current", "migrate"]
