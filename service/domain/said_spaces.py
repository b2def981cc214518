# SPDX-License-Identifier: Apache-2.0
"""Search spaces belong to the token that reports: each says its own, and nobody's shuts out another's results.

The engine's results are checked against the engine's own parameters. Results of any other target are checked against
the spaces that their token said for the study, in whichever order tokens came; one that said none may report any knobs
that can be stored and shown.
"""

from sqlalchemy import Connection

from ringtune.service.store import Database
from ringtune.service.store import said_spaces as table
from ringtune.service.store.clock import now_unix_s
from ringtune.service.store.rows import SaidSpaceRow
from ringtune.tuner import SearchSpace

from .budgets import row_cost, spend
from .canonical import canonical, digest
from .policy import ServiceLimits
from .spaces import ENGINE_TARGET
from .study_cache import KnownStudy
from .submission import LegalConfigs

MAX_SAID = 64
"""Spaces of one token and study: that of each machine and version of its jobs. The one said longest ago goes."""
SAID_AGAIN_S = 3600.0
"""A space that was said again sooner is not written again."""


class SaidSpaces:
    """The spaces that tokens said."""

    def __init__(self, database: Database, limits: ServiceLimits) -> None:
        """Keep them in `database`."""
        self._database = database
        self._limits = limits

    def say(self, study_id: str, token_id: str | None, space: SearchSpace) -> None:
        """Keep that a token's jobs have a space in a study."""
        with self._database.looking() as connection:
            is_known = _is_known(connection, study_id, token_id, space)
        if not is_known:
            with self._database.writing() as connection:
                say(connection, study_id, token_id, space, self._limits)

    def legal(self, study: KnownStudy, token_id: str | None) -> LegalConfigs:
        """Return the space that a token's results of a study are checked against."""
        if study.key.target == ENGINE_TARGET:
            return LegalConfigs.of_engine()
        with self._database.looking() as connection:
            rows = table.of_token(connection, study.study_id, token_id)
        return LegalConfigs(study.key.target, [SearchSpace(_space(row).parameters, {}) for row in rows])


def say(connection: Connection, study_id: str, token_id: str | None, space: SearchSpace, limits: ServiceLimits) -> None:
    """Keep that a token's jobs have a space in a study, which exists; QuotaExceeded if it may store no more now."""
    if _is_known(connection, study_id, token_id, space):
        return
    text = canonical(space.to_json())
    row = SaidSpaceRow(
        study_id=study_id,
        token_id=token_id or table.OPEN,
        space_digest=digest(text),
        space=text,
        said_unix_s=now_unix_s(connection),
    )
    spend(connection, token_id, limits, row_cost(text))
    table.put(connection, row)
    table.forget(connection, table.of_token(connection, study_id, token_id)[MAX_SAID:])


def space_of(connection: Connection, study: KnownStudy, token_id: str | None) -> SearchSpace:
    """Return the space that stands for a job that names none: the study's if its token said that, else its last one."""
    rows = table.of_token(connection, study.study_id, token_id)
    of_study = digest(canonical(study.space.to_json()))
    if not rows or any(row.space_digest == of_study for row in rows):
        return study.space
    return _space(rows[0])


def _is_known(connection: Connection, study_id: str, token_id: str | None, space: SearchSpace) -> bool:
    """Tell whether a token said a space not long ago."""
    wanted, now = digest(canonical(space.to_json())), now_unix_s(connection)
    rows = table.of_token(connection, study_id, token_id)
    return any(row.space_digest == wanted and now - row.said_unix_s < SAID_AGAIN_S for row in rows)


def _space(row: SaidSpaceRow) -> SearchSpace:
    return SearchSpace.from_json(row.search_space)
