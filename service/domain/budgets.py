# SPDX-License-Identifier: Apache-2.0
"""Budgets of tokens: rows, bytes and jobs that one token may store in a day, so that none fills the disk for all.

A budget is a token bucket: it comes back evenly over the day, and a share of it may be spent at once. Without a token,
where the service is open, there is none.

A refused report is refused before it is stored, and may be sent again as it is, later.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from ringtune.service.errors import QuotaExceeded
from ringtune.service.store import token_usage
from ringtune.service.store.clock import now_unix_s
from ringtune.service.store.rows import TokenUsageRow

from .policy import ServiceLimits

DAY_S = 86_400.0
AT_ONCE = 1 / 30
"""Share of a day's rows and bytes that may come at once: with the defaults 5,000 rows, those of fifty jobs.
Jobs may come all at once."""
ROW_BYTES = 400
"""Bytes of a row beside its texts: ids, numbers and their share of the indexes."""


@dataclass(frozen=True)
class Cost:
    """Cost of a write: rows, their bytes, and jobs that were not known."""

    rows: int = 0
    size: int = 0
    jobs: int = 0


ONE_JOB = Cost(jobs=1)


def row_cost(*texts: str | None) -> Cost:
    """Return the cost of one row with some texts."""
    return Cost(rows=1, size=ROW_BYTES + sum(len(text) for text in texts if text is not None))


class Budgets:
    """The budgets of some tokens in one transaction."""

    def __init__(self, usage: dict[str, TokenUsageRow], limits: ServiceLimits, now_unix_s: float) -> None:
        """Begin with the budgets used so far, by token."""
        self._usage = usage
        self._spent: set[str] = set()
        self._now = now_unix_s
        self._per_day = {
            "rows": float(limits.max_rows_per_token),
            "size": float(limits.max_bytes_per_token),
            "jobs": float(limits.max_new_jobs_per_token),
        }

    @classmethod
    def load(cls, connection: Connection, token_ids: Collection[str | None], limits: ServiceLimits) -> "Budgets":
        """Read the budgets that some tokens have used."""
        named = {token_id for token_id in token_ids if token_id is not None}
        usage = token_usage.of_tokens(connection, named) if named else {}
        return cls(usage, limits, now_unix_s(connection))

    def spend(self, token_id: str | None, cost: Cost) -> QuotaExceeded | None:
        """Take from a token's budget, or return why it does not suffice, and leave it as it is."""
        if token_id is None:
            return None
        used = self._now_used(token_id)
        if (refusal := self._lack(used, cost)) is not None:
            return refusal
        more = {name: getattr(used, name) + getattr(cost, name) for name in self._per_day}
        self._usage[token_id] = replace(used, **more)
        self._spent.add(token_id)
        return None

    def may_begin(self, token_id: str | None) -> bool:
        """Take one job from a token's budget, if it is there."""
        return self.spend(token_id, ONE_JOB) is None

    def no_more_jobs(self, token_id: str | None) -> QuotaExceeded | None:
        """Return why a token may begin no job; None if it may."""
        return None if token_id is None else self._lack(self._now_used(token_id), ONE_JOB)

    def save(self, connection: Connection) -> None:
        """Write the new budgets."""
        token_usage.put(connection, [self._usage[token_id] for token_id in sorted(self._spent)])

    def _lack(self, used: TokenUsageRow, cost: Cost) -> QuotaExceeded | None:
        """Return the missing part of a cost; one that is larger than may come at once needs all that may."""
        left = {name: max(self._at_once(name) - getattr(used, name), 0.0) for name in self._per_day}
        short = {name: min(getattr(cost, name), self._at_once(name)) - left[name] for name in self._per_day}
        wait_s = {name: DAY_S * lack / self._per_day[name] for name, lack in short.items() if lack > 0}
        if not wait_s:
            return None
        name = max(wait_s, key=lambda name: wait_s[name])
        return self._refusal(name, wait_s[name])

    def _now_used(self, token_id: str) -> TokenUsageRow:
        """Return the used part of a token's budget that has not come back yet."""
        known = self._usage.get(token_id)
        if known is None:
            return TokenUsageRow(token_id=token_id, rows=0.0, size=0.0, jobs=0.0, at_unix_s=self._now)
        share = max(self._now - known.at_unix_s, 0.0) / DAY_S
        rest = {name: max(getattr(known, name) - share * most, 0.0) for name, most in self._per_day.items()}
        return replace(known, at_unix_s=self._now, **rest)

    def _at_once(self, name: str) -> float:
        return self._per_day[name] if name == "jobs" else max(AT_ONCE * self._per_day[name], 1.0)

    def _refusal(self, name: str, wait_s: float) -> QuotaExceeded:
        words = {"rows": "results, asks and facts of jobs", "size": "bytes of such", "jobs": "new jobs"}[name]
        return QuotaExceeded(
            f"a token may store {self._per_day[name]:,.0f} {words} in a day, and {self._at_once(name):,.0f} at once; "
            f"send the same again in {wait_s:,.0f} s, or ask an operator",
            retry_after_s=wait_s,
        )


def spend(connection: Connection, token_id: str | None, limits: ServiceLimits, cost: Cost) -> None:
    """Take one cost from a token's budget.

    Raises:
        QuotaExceeded: If it does not suffice.
    """
    if token_id is None:
        return
    budgets = Budgets.load(connection, [token_id], limits)
    if (refusal := budgets.spend(token_id, cost)) is not None:
        raise refusal
    budgets.save(connection)
