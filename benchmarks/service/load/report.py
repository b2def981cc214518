# SPDX-License-Identifier: Apache-2.0
"""The table."""

from collections.abc import Sequence

from rich.table import Table

from .client import LOST, UNSENT, Observed
from .scenarios import LoadRow, percentile

WORDS = {LOST: "connection lost", UNSENT: "no connection free"}


def table_of(rows: Sequence[LoadRow], title: str) -> Table:
    """Return the table of the loads."""
    table = Table(title=title, title_justify="left")
    table.add_column("load")
    for heading in ("answered 2xx/s", "trials/s", "p50, ms", "p99, ms", "service's CPU, ms each"):
        table.add_column(heading, justify="right")
    table.add_column("replies")
    for row in rows:
        seen = row.observed
        table.add_row(
            row.name,
            f"{seen.good_per_s:,.0f}",
            f"{row.trials * seen.good_per_s:,.0f}" if row.trials else "",
            *(f"{1e3 * percentile(seen.latencies_s, share):.1f}" for share in (0.5, 0.99)),
            f"{1e3 * row.server_cpu_s / max(seen.statuses.total(), 1):.2f}",
            "; ".join(filter(None, (_replies(seen), _lateness(seen), row.remark))),
        )
    return table


def _replies(seen: Observed) -> str:
    counts = ", ".join(f"{WORDS.get(status, str(status))}: {count}" for status, count in sorted(seen.statuses.items()))
    return f"{counts}; {seen.without_retry_after} without Retry-After" if seen.without_retry_after else counts


def _lateness(seen: Observed) -> str:
    """Say how late the client was, which is in its latencies: on a busy machine it may be most of them."""
    return f"sent late by {1e3 * percentile(seen.lateness_s, 0.99):.1f} ms (p99)" if seen.lateness_s else ""
