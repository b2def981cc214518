# SPDX-License-Identifier: Apache-2.0
"""Retention: the oldest results go, by age and by number, and what is derived follows."""

from ringtune.service.store import Database, audit, leases, reports
from ringtune.service.store.clock import now_unix_s

from .policy import Policy
from .summing import rebuild
from .values import Removed


class Retention:
    """Removes what the policy does not keep."""

    def __init__(self, database: Database, policy: Policy) -> None:
        """Remove from `database`."""
        self._database = database
        self._policy = policy

    def apply(self) -> Removed:
        """Remove results and trials that are too old or too many; the audit keeps how many."""
        if self._policy.max_age_s is None and self._policy.max_results is None:
            return Removed(0, 0)
        with self._database.writing(reports.LOCK) as connection:
            before, last, trials = 0.0, 0, 0
            if self._policy.max_age_s is not None:
                before = now_unix_s(connection) - self._policy.max_age_s
                trials = leases.delete_older(connection, before)
            if self._policy.max_results is not None:
                last = reports.last_beyond(connection, self._policy.max_results)
            concerned = reports.studies_not_kept(connection, before, last)
            removed = Removed(reports.delete_not_kept(connection, before, last), trials)
            rebuild(connection, concerned, self._policy.max_speedup)
            if removed.results or removed.trials:
                audit.record(connection, "retention_applied", "ledger", vars(removed))
        return removed
