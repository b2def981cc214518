# SPDX-License-Identifier: Apache-2.0
"""Studies: found by key, created by the first token that names the key, listed, deleted."""

import re
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from ringtune.service.errors import InvalidRequest, QuotaExceeded, StudyNotFound
from ringtune.service.store import Database, audit, reports, said_names
from ringtune.service.store import studies as table
from ringtune.service.store.clock import now_unix_s
from ringtune.service.store.rows import StudyRow
from ringtune.tuner import SearchSpace
from ringtune.tuner.priors.relevance import StudyKey

from .canonical import canonical, digest
from .cursors import cursor_of, place_in
from .policy import ServiceLimits
from .said_names import is_said, say_names
from .said_spaces import SaidSpaces
from .spaces import study_space
from .study_cache import StudyCache, key_of
from .values import Page, StudyFilter, StudyRecord

CREATED = "study_created"
"""Event of the audit; its subject is the token."""
DAY_S = 86_400.0
QUOTA_RETRY_S = 3600.0
MAX_PAGE = 500
NO_SIZES = "[]"
"""Sizes of tensors where no job reported them, as a study has them."""
MAX_NAME = 200
MAX_HOSTS = 4096
MAX_RANKS_PER_HOST = 4096
MAX_TENSORS = 20_000
MAX_TENSOR_BYTES = 1 << 40
MAX_SURFACE_VERSION = 2**31 - 1
FINGERPRINT = re.compile(r"[0-9a-f]{64}")
TARGET = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")


class Studies:
    """The studies of the service."""

    def __init__(self, database: Database, cache: StudyCache, box: SearchSpace, policy: ServiceLimits) -> None:
        """Keep studies in `database`; the engine's are inside `box`."""
        self._max_new_per_token = policy.max_new_studies_per_token
        self._database = database
        self._cache = cache
        self._box = box
        self._spaces = SaidSpaces(database, policy)

    def find_or_create(
        self,
        key: StudyKey,
        *,
        space_json: Mapping[str, Any],
        model_name: str | None = None,
        hardware_name: str | None = None,
        gradient_bytes: Sequence[int] = (),
        token_id: str | None = None,
    ) -> StudyRecord:
        """Return the study with a key, and keep that the token's jobs have this space in it.

        The first token says the space that the study begins with; every token that knows them gives names and sizes.

        Raises:
            InvalidRequest: If the key, a name or a size cannot be.
            OutsideSearchSpace: If the space is none, or reaches beyond the box.
            QuotaExceeded: If `token_id`, the token that asks, has created as many in a day as one may.
        """
        check_key(key)
        facts = {
            "model_name": checked_name("model_name", model_name),
            "hardware_name": checked_name("hardware_name", hardware_name),
            "gradient_bytes": canonical(checked_sizes(gradient_bytes)),
        }
        space = study_space(key.target, space_json, self._box)
        study = self._found_or_created(key, space, facts, token_id)
        self._spaces.say(study.study_id, token_id, space)
        return study

    def get(self, study_id: str) -> StudyRecord:
        """Return a study.

        Raises:
            StudyNotFound: If there is none.
        """
        with self._database.looking() as connection:
            row = table.get(connection, study_id)
            if row is None:
                raise StudyNotFound(f"there is no study {study_id[:64]!r}")
            return _study(connection, row)

    def list(self, wanted: StudyFilter, cursor: str | None = None, limit: int = 50) -> Page[StudyRecord]:
        """Return a page of studies, the newest first.

        Raises:
            InvalidRequest: If the cursor is not one that an earlier page gave, or the limit is not allowed.
        """
        if not 1 <= limit <= MAX_PAGE:
            raise InvalidRequest(f"limit={limit}; allowed: 1 to {MAX_PAGE}")
        equal = {name: value for name, value in vars(wanted).items() if value is not None}
        with self._database.reading() as connection:
            rows = table.page(connection, equal, place_in(cursor), limit + 1)
            counts = table.counts(connection, [row.study_id for row in rows])
            now = now_unix_s(connection)
        items = tuple(_from_row(row, counts.get(row.study_id, (0, 0)), now) for row in rows[:limit])
        is_last = len(rows) <= limit
        return Page(items, None if is_last else cursor_of(rows[limit - 1].created_unix_s, items[-1].study_id))

    def delete(self, study_id: str) -> None:
        """Delete a study with all its trials and results; the audit keeps that there was one.

        Raises:
            StudyNotFound: If there is none.
        """
        with self._database.writing(reports.LOCK) as connection:
            row = table.get(connection, study_id)
            if row is None or not table.delete_one(connection, study_id):
                raise StudyNotFound(f"there is no study {study_id[:64]!r}")
            audit.record(connection, "study_deleted", study_id, {"key": row.key_digest})
        self._cache.forget(study_id)

    def _found_or_created(
        self, key: StudyKey, space: SearchSpace, facts: Mapping[str, Any], token_id: str | None
    ) -> StudyRecord:
        key_digest = digest_of(key)
        with self._database.looking() as connection:
            row = table.find(connection, key_digest)
            study = None if row is None else _study(connection, row)
        if row is None or study is None:
            return self._create(key, canonical(space.to_json()), facts, token_id)
        names = {name: facts[name] for name in ("model_name", "hardware_name")}
        is_sized = row.gradient_bytes != NO_SIZES or facts["gradient_bytes"] == NO_SIZES
        with self._database.looking() as connection:
            is_named = is_said(said_names.of_token(connection, study.study_id, token_id), names)
        if is_named and is_sized:
            return study
        with self._database.writing() as connection:
            say_names(connection, study.study_id, token_id, names)
            if not is_sized:
                table.complete(connection, study.study_id, {"gradient_bytes": facts["gradient_bytes"]})
        self._cache.forget(study.study_id)
        return self.get(study.study_id)

    def _count_new(self, connection: Connection, study_id: str, token_id: str) -> None:
        """Note the token that creates a study, unless that is more than a token may in a day."""
        most = self._max_new_per_token
        if audit.count(connection, CREATED, token_id, DAY_S) >= most:
            raise QuotaExceeded(
                f"this token has created {most} studies in a day; report to those there are, or ask an operator",
                retry_after_s=QUOTA_RETRY_S,
            )
        audit.record(connection, CREATED, token_id, {"study_id": study_id})

    def _create(self, key: StudyKey, space: str, facts: Mapping[str, Any], token_id: str | None) -> StudyRecord:
        study_id = uuid.uuid4().hex
        try:
            with self._database.writing() as connection:
                if token_id is not None:
                    self._count_new(connection, study_id, token_id)
                new = study_row(key, study_id, space, created_unix_s=now_unix_s(connection), **facts)
                table.add(connection, new)
                say_names(
                    connection, study_id, token_id, {name: facts[name] for name in ("model_name", "hardware_name")}
                )
        except IntegrityError:  # somebody else created it just now
            with self._database.looking() as connection:
                row = table.find(connection, digest_of(key))
                if row is None:
                    raise
                return _study(connection, row)
        return self.get(study_id)


def study_row(key: StudyKey, study_id: str, space: str, *, created_unix_s: float, **facts: Any) -> StudyRow:
    """Return a new study's row; `facts` are the columns on its model and hardware."""
    return StudyRow(
        study_id=study_id,
        key_digest=digest_of(key),
        hardware=key.hardware,
        model=key.model,
        layout=canonical(key.layout),
        target=key.target,
        surface_version=key.surface_version,
        space=space,
        created_unix_s=created_unix_s,
        **{"machines_text": None, **facts},
    )


def digest_of(key: StudyKey) -> str:
    """Return the digest by which a study is found."""
    return digest(canonical([key.hardware, key.model, list(key.layout), key.target, key.surface_version]))


def _study(connection: Connection, row: StudyRow) -> StudyRecord:
    counts = table.counts(connection, [row.study_id])
    return _from_row(row, counts.get(row.study_id, (0, 0)), now_unix_s(connection))


def _from_row(row: StudyRow, counts: tuple[int, int], now_unix_s: float) -> StudyRecord:
    return StudyRecord(
        study_id=row.study_id,
        key=key_of(row),
        model_name=row.model_name,
        hardware_name=row.hardware_name,
        space=row.search_space,
        gradient_bytes=row.tensor_bytes,
        trials=counts[0],
        jobs=counts[1],
        age_s=max(now_unix_s - row.created_unix_s, 0.0),
    )


def check_key(key: StudyKey) -> None:
    """Raise InvalidRequest for a key that cannot be: however it came here, the API must be able to show it."""
    for name in ("hardware", "model"):
        if not FINGERPRINT.fullmatch(getattr(key, name)):
            raise InvalidRequest(f"{name}={getattr(key, name)[:100]!r} is no fingerprint: 64 digits of 0-9a-f")
    if not TARGET.fullmatch(key.target):
        raise InvalidRequest(f"target={key.target[:100]!r} is no target's name: 1 to 64 of a-z, 0-9, '_', '.' and '-'")
    hosts = key.layout
    is_layout = 1 <= len(hosts) <= MAX_HOSTS and all(_is_whole(ranks, MAX_RANKS_PER_HOST) for ranks in hosts)
    if not is_layout or list(hosts) != sorted(hosts):
        raise InvalidRequest(f"layout={list(hosts)[:20]} is not the sorted list of ranks per host, each 1 or more")
    if not _is_whole(key.surface_version, MAX_SURFACE_VERSION):
        raise InvalidRequest(f"surface_version={str(key.surface_version)[:40]}; allowed: 1 to {MAX_SURFACE_VERSION}")


def _is_whole(number: object, most: int) -> bool:
    """Tell whether something is a whole number from 1: neither 2.0 nor true, whose keys would be others."""
    return type(number) is int and 1 <= number <= most


def checked_name(what: str, name: str | None) -> str | None:
    """Return a name for people; raises InvalidRequest if it cannot be shown."""
    if name is None or (1 <= len(name) <= MAX_NAME and name.isprintable()):
        return name
    raise InvalidRequest(f"{what}={name[:100]!r} is no name: 1 to {MAX_NAME} printable characters")


def checked_sizes(gradient_bytes: Sequence[int]) -> list[int]:
    """Return the sizes of tensors in their order; raises InvalidRequest for sizes that cannot be."""
    if len(gradient_bytes) > MAX_TENSORS or not all(0 < size <= MAX_TENSOR_BYTES for size in gradient_bytes):
        raise InvalidRequest(f"gradient_bytes are up to {MAX_TENSORS} sizes from 1 to {MAX_TENSOR_BYTES} bytes")
    return sorted(gradient_bytes)
