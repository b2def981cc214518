# SPDX-License-Identifier: Apache-2.0
"""A token's results: whether its jobs count one by one, and all of them deleted. Verdicts follow at once."""

from dataclasses import replace

from ringtune.service.errors import TokenNotFound
from ringtune.service.store import Database, audit, key_verdicts, reports, said_names
from ringtune.service.store import tokens as table

from .policy import ServiceLimits
from .said_names import elect
from .summary_updates import rebuild
from .tokens import token_of
from .values import TokenGrant


class TokenResults:
    """Results by token, for operators."""

    def __init__(self, database: Database, policy: ServiceLimits) -> None:
        """Change it in `database`."""
        self._database = database
        self._policy = policy

    def delete(self, token_id: str) -> int:
        """Delete the results, logs, verdicts and names of a token, if it exists or not; returns how many results.

        Its job ids stay its own.
        """
        with self._database.writing(reports.LOCK) as connection:
            concerned = reports.studies_of_token(connection, token_id)
            removed = reports.delete_of_token(connection, token_id)
            key_verdicts.forget_token(connection, token_id)
            for study_id in said_names.forget_token(connection, token_id):
                elect(connection, study_id)
            rebuild(connection, concerned, self._policy.max_speedup)
            audit.record(connection, "results_deleted", token_id, {"results": removed})
        return removed

    def declare(self, token_id: str, *, has_many_jobs: bool) -> TokenGrant:
        """Say whether a token stands for many independent jobs, from now on and for its earlier reports.

        Raises:
            TokenNotFound: If there is none.
        """
        with self._database.writing(reports.LOCK) as connection:
            known = table.get(connection, token_id)
            if known is None:
                raise TokenNotFound(f"there is no token {token_id[:64]!r}")
            if known.has_many_jobs != has_many_jobs:
                table.declare(connection, token_id, has_many_jobs=has_many_jobs)
                concerned = reports.studies_of_token(connection, token_id)
                rebuild(connection, concerned, self._policy.max_speedup)
                audit.record(connection, "token_declared", token_id, {"has_many_jobs": has_many_jobs})
            return token_of(replace(known, has_many_jobs=has_many_jobs))
