# SPDX-License-Identifier: Apache-2.0
"""Retention: the oldest results go, by age and by number, and derived rows follow.

A clock that is ahead makes every result look old, so an age alone is never reason enough. Ages count from the newest
result as well as from the clock; a clock that the results do not bear out removes no result; one run removes a tenth of
the results at most. One study at a time, each in a transaction of its own: reports wait for no more than one study.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import Connection

from ringtune.service.errors import ServiceError
from ringtune.service.store import Database, audit, jobs, leases, reports
from ringtune.service.store.clock import now_unix_s

from .policy import ServiceLimits
from .summary_updates import rebuild
from .values import Removed

LONGEST_REST_S = 0.1
"""Between two studies, and no longer than the one before took: whoever waits for the lock gets it then."""
SILENCE_SHARE = 0.5
"""Share of the retention period without results after which the clock is doubted."""
RECENT_SHARE = 0.1
"""Share of the period for which results must have come after such a silence before older ones may go."""
STEP_SHARE, LEAST_STEP_S = 0.01, 60.0
"""A difference between two clocks that is a step: a share of the period, and seconds at least."""
SHARE_PER_RUN = 0.1
"""Share of all results that one run may remove by age."""
DAY_S = 86_400.0


class ClockDoubted(ServiceError):  # noqa: N818  (named as the service's other errors)
    """The clock may be wrong; no result was removed."""


@dataclass(frozen=True)
class _Reading:
    """Both clocks at one moment, in seconds."""

    unix_s: float
    steady_s: float


def steady_s() -> float:
    """Return seconds on a clock that cannot be set, and that goes on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Retention:
    """Removes the results that the policy does not keep."""

    def __init__(
        self,
        database: Database,
        policy: ServiceLimits,
        rest: Callable[[float], object] = time.sleep,
        steady: Callable[[], float] = steady_s,
    ) -> None:
        """Remove from `database`; `rest` waits so many seconds, and `steady` is a clock that cannot be set."""
        self._database = database
        self._policy = policy
        self._rest = rest
        self._steady = steady
        self._last: _Reading | None = None

    def begin(self) -> None:
        """Read the clock for the first time: the next `apply` notices if it was set meanwhile."""
        with self._database.looking() as connection:
            self._last = _Reading(now_unix_s(connection), self._steady())

    def apply(self) -> Removed:
        """Remove results and trials that are too old or too many; the audit keeps how many.

        Results that were removed when this ends early stay removed; the next time goes on.

        Raises:
            ClockDoubted: If the clock may be wrong; no result was removed.
        """
        before, last = 0.0, 0
        with self._database.looking() as connection:
            if self._policy.max_age_s is not None:
                before = self._oldest_kept(connection, self._policy.max_age_s)
            if self._policy.max_results is not None:
                last = reports.last_beyond(connection, self._policy.max_results)
            concerned = reports.studies_not_kept(connection, before, last) if before > 0.0 or last > 0 else ()
        results = sum(self._clean(study_id, before, last) for study_id in concerned)
        return self._note(results, before)

    def _oldest_kept(self, connection: Connection, max_age_s: float) -> float:
        """Return the time before which results go now, seconds since 1970; 0 if none do."""
        reading = _Reading(now_unix_s(connection), self._steady())
        self._refuse_step(reading, max_age_s)
        newest = reports.newest_time(connection, reading.unix_s)
        if newest is None:
            return 0.0
        silence = SILENCE_SHARE * max_age_s
        if reading.unix_s - newest > silence:
            raise ClockDoubted(
                f"the newest result is {_days(reading.unix_s - newest)} old, which is more than half of the retention "
                "period: the clock may be ahead; results are removed again once new ones come"
            )
        before = newest - max_age_s
        if not reports.count_between(connection, 0.0, before):
            return max(before, 0.0)
        recent = newest - RECENT_SHARE * max_age_s
        if not reports.count_between(connection, recent - silence, recent):
            raise ClockDoubted(
                f"no result came for {_days(silence)} before the newest ones: the clock may be ahead; results are "
                f"removed again once new ones have come for {_days(RECENT_SHARE * max_age_s)}"
            )
        return reports.time_of_share(connection, before, SHARE_PER_RUN)

    def _refuse_step(self, now: _Reading, max_age_s: float) -> None:
        """Raise ClockDoubted if the clock was set since the last time."""
        last, self._last = self._last, now
        if last is None:
            return
        step_s = (now.unix_s - last.unix_s) - (now.steady_s - last.steady_s)
        if abs(step_s) > max(LEAST_STEP_S, STEP_SHARE * max_age_s):
            raise ClockDoubted(
                f"the clock was set by {step_s:+.0f} s since the last time: check it; results are removed again the "
                "next time, unless it is set again"
            )

    def _clean(self, study_id: str, before_unix_s: float, last: int) -> int:
        """Remove the results of one study that are not kept; returns how many, when others have had their turn."""
        began_s = time.monotonic()
        with self._database.writing(reports.LOCK) as connection:
            removed = reports.delete_not_kept(connection, study_id, before_unix_s, last)
            rebuild(connection, [study_id], self._policy.max_speedup)
        self._rest(min(time.monotonic() - began_s, LONGEST_REST_S))
        return removed

    def _note(self, results: int, before_unix_s: float) -> Removed:
        """Remove the trials that are too old, too, and write down the numbers."""
        with self._database.writing() as connection:
            removed = Removed(results, leases.delete_older(connection, before_unix_s))
            jobs.delete_unused(connection, before_unix_s)
            if removed.results or removed.trials:
                audit.record(connection, "retention_applied", "ledger", vars(removed))
        return removed


def _days(seconds: float) -> str:
    return f"{seconds / DAY_S:.3g} days"
