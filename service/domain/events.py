# SPDX-License-Identifier: Apache-2.0
"""The feed: the ledger's rows in the order in which they became visible."""

from ringtune.service.store import Database, reports

from .values import ResultEvent


class Events:
    """The ledger as a feed."""

    def __init__(self, database: Database) -> None:
        """Read from `database`."""
        self._database = database

    def since(self, number: int, limit: int = 500) -> tuple[ResultEvent, ...]:
        """Return the events after a number, the oldest first; 0 begins at the beginning."""
        with self._database.looking() as connection:
            rows = reports.since(connection, number, limit)
        return tuple(
            ResultEvent(
                number=row.number,
                study_id=row.study_id,
                trial_id=row.trial_id,
                job_id=row.job_id,
                status=row.status,
                phase=row.phase,
                score_bytes_per_s=row.score_bytes_per_s,
                age_s=max(row.age_s, 0.0),
            )
            for row in rows
        )

    def newest(self) -> int:
        """Return the number of the newest event, 0 if there is none."""
        with self._database.looking() as connection:
            return reports.newest_number(connection)
