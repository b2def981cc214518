# SPDX-License-Identifier: Apache-2.0
"""Whole tables for download: every row there is, a few at a time, however many.

A page shows the first or the newest rows and says so; a file has all. Each chunk is a read of its own, so that a slow
reader holds no connection. Which rows there are is settled before the first; one that is deleted meanwhile is missing.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from ringtune.service.errors import StudyNotFound
from ringtune.service.store import Database, studies
from ringtune.service.store import job_states as states
from ringtune.service.store import whole_tables as table
from ringtune.service.store.overview import Wanted

from .jobs import StudyJob, these_jobs
from .overview import JobPart, LedgerResult, ListedStudy, Overview, parts_of, result_of
from .verdicts import BestConfig, best_of

CHUNK = 500
"""Rows of one read."""


class WholeTables:
    """Reads tables to their end."""

    def __init__(self, database: Database) -> None:
        """Read from `database`."""
        self._database = database
        self._overview = Overview(database)

    def studies(self, wanted: Wanted, order: str) -> Iterator[Sequence[ListedStudy]]:
        """Yield all studies that a list shows, in its order.

        Raises:
            InvalidRequest: If there is no such order or finding.
        """
        self._overview.studies(wanted, order, limit=1)  # checks the filters and the order
        with self._database.looking() as connection:
            study_ids = table.study_ids(connection, wanted, order)
        for chunk in _chunks(study_ids):
            yield self._overview.some(chunk)

    def jobs(self, study_id: str) -> Iterator[Sequence[tuple[StudyJob, JobPart]]]:
        """Yield all jobs of a study, the last ones to report first, each with its results in the study.

        Raises:
            StudyNotFound: If there is none.
        """
        self._check(study_id)
        with self._database.looking() as connection:
            job_ids = [job_id for _, job_id in states.newest(connection, study_id, None)]
        for chunk in _chunks(job_ids):
            with self._database.reading() as connection:
                parts = parts_of(connection, study_id, chunk)
                yield [(job, parts[job.job_id]) for job in these_jobs(connection, study_id, chunk)]

    def configs(self, study_id: str) -> Iterator[Sequence[BestConfig]]:
        """Yield all configs of a study, the best first.

        Raises:
            StudyNotFound: If there is none.
        """
        self._check(study_id)
        with self._database.looking() as connection:
            digests = table.config_digests(connection, study_id)
        for chunk in _chunks(digests):
            with self._database.looking() as connection:
                rows = table.these_configs(connection, study_id, chunk)
            yield [best_of(rows[digest]) for digest in chunk if digest in rows]

    def results(self, study_id: str) -> Iterator[Sequence[LedgerResult]]:
        """Yield all results of a study, the newest first.

        Raises:
            StudyNotFound: If there is none.
        """
        self._check(study_id)
        before: int | None = None
        while True:
            with self._database.looking() as connection:
                rows = table.results_before(connection, study_id, before, CHUNK)
            if not rows:
                return
            before = rows[-1].number
            yield [result_of(row) for row in rows]

    def knobs(self, study_id: str) -> tuple[str, ...]:
        """Return the names of all knobs that a study's results have a value for."""
        with self._database.looking() as connection:
            names = dict.fromkeys(
                name for config in table.measured_configs(connection, study_id) for name in json.loads(config)
            )
        return tuple(names)

    def _check(self, study_id: str) -> None:
        with self._database.looking() as connection:
            if not studies.existing(connection, {study_id}):
                raise StudyNotFound(f"there is no study {study_id[:64]!r}")


def _chunks(ids: Iterable[str]) -> Iterator[list[str]]:
    rest = iter(ids)
    while chunk := list(islice(rest, CHUNK)):
        yield chunk
