# SPDX-License-Identifier: Apache-2.0
"""Constant facts of a study, cached so that a result is checked without a read."""

import threading
from dataclasses import dataclass

from cachetools import LRUCache

from ringtune.service.errors import StudyNotFound
from ringtune.service.store import Database, studies
from ringtune.service.store.rows import StudyHead, StudyRow
from ringtune.tuner import SearchSpace
from ringtune.tuner.priors.relevance import StudyKey

MAX_STUDIES = 1024


@dataclass(frozen=True)
class KnownStudy:
    """The constant facts of a study.

    Attributes:
        study_id: The study.
        key: Its key.
        space: The search space of its first job.
        gradient_bytes: Bytes of each tensor of a step; empty if no job reported them.
    """

    study_id: str
    key: StudyKey
    space: SearchSpace
    gradient_bytes: tuple[int, ...]


def key_of(row: StudyHead) -> StudyKey:
    """Return the key in a study's row."""
    return StudyKey(row.hardware, row.model, row.ranks_per_host, row.target, row.surface_version)


def known_study(row: StudyRow) -> KnownStudy:
    """Return the study in a row."""
    key, space = key_of(row), SearchSpace.from_json(row.search_space)
    return KnownStudy(row.study_id, key, space, row.tensor_bytes)


class StudyCache:
    """The studies used last. Calls may come from any thread."""

    def __init__(self, database: Database) -> None:
        """Read facts from `database` that are not known yet."""
        self._database = database
        self._known: LRUCache[str, KnownStudy] = LRUCache(MAX_STUDIES)
        self._lock = threading.Lock()

    def known(self, study_id: str) -> KnownStudy | None:
        """Return a study if that needs no read."""
        with self._lock:
            return self._known.get(study_id)

    def get(self, study_id: str) -> KnownStudy:
        """Return a study; one that was deleted by another process may still be known here.

        Raises:
            StudyNotFound: If there is none.
        """
        if (known := self.known(study_id)) is not None:
            return known
        with self._database.looking() as connection:
            row = studies.get(connection, study_id)
        if row is None:
            raise StudyNotFound(f"there is no study {study_id!r}; create it with its key first")
        study = known_study(row)
        with self._lock:
            self._known[study_id] = study
        return study

    def forget(self, study_id: str) -> None:
        """Read the study anew next time."""
        with self._lock:
            self._known.pop(study_id, None)
