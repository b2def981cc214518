# SPDX-License-Identifier: Apache-2.0
"""Retention: the oldest results go, by age and by number, and what is derived follows.

One study at a time, each in a transaction of its own: reports wait for no more than one study.
"""

import time
from collections.abc import Callable

from ringtune.service.store import Database, audit, jobs, leases, reports
from ringtune.service.store.clock import now_unix_s

from .policy import Policy
from .summing import rebuild
from .values import Removed

LONGEST_REST_S = 0.1
"""Between two studies, and no longer than the one before took: whoever waits for the lock gets it then."""


class Retention:
    """Removes what the policy does not keep."""

    def __init__(self, database: Database, policy: Policy, rest: Callable[[float], object] = time.sleep) -> None:
        """Remove from `database`; `rest` waits so many seconds."""
        self._database = database
        self._policy = policy
        self._rest = rest

    def apply(self) -> Removed:
        """Remove results and trials that are too old or too many; the audit keeps how many.

        What is removed when this ends early stays removed; the next time goes on.
        """
        before, last = 0.0, 0
        with self._database.looking() as connection:
            if self._policy.max_age_s is not None:
                before = now_unix_s(connection) - self._policy.max_age_s
            if self._policy.max_results is not None:
                last = reports.last_beyond(connection, self._policy.max_results)
            concerned = reports.studies_not_kept(connection, before, last) if before > 0.0 or last > 0 else ()
        results = sum(self._clean(study_id, before, last) for study_id in concerned)
        return self._note(results, before)

    def _clean(self, study_id: str, before_unix_s: float, last: int) -> int:
        """Remove what is not kept of one study; returns how many results, when others have had their turn."""
        began_s = time.monotonic()
        with self._database.writing(reports.LOCK) as connection:
            removed = reports.delete_not_kept(connection, study_id, before_unix_s, last)
            rebuild(connection, [study_id], self._policy.max_speedup)
        self._rest(min(time.monotonic() - began_s, LONGEST_REST_S))
        return removed

    def _note(self, results: int, before_unix_s: float) -> Removed:
        """Remove the trials that are too old, too, and write down what is gone."""
        with self._database.writing() as connection:
            removed = Removed(results, leases.delete_older(connection, before_unix_s))
            jobs.delete_unused(connection, before_unix_s)
            if removed.results or removed.trials:
                audit.record(connection, "retention_applied", "ledger", vars(removed))
        return removed
