# SPDX-License-Identifier: Apache-2.0
"""Job ids belong to the token that used them first, in whatever call."""

from collections.abc import Mapping

from sqlalchemy import Connection

from ringtune.service.errors import JobConflict
from ringtune.service.store import jobs


def claim(connection: Connection, job_id: str, token_id: str | None, now_unix_s: float) -> None:
    """Use a job id with a token.

    Raises:
        JobConflict: If it belongs to another token.
    """
    conflict = conflict_of(job_id, token_id, jobs.claim(connection, {job_id: token_id}, now_unix_s))
    if conflict is not None:
        raise conflict


def conflict_of(job_id: str, token_id: str | None, owners: Mapping[str, str | None]) -> JobConflict | None:
    """Return why a token may not use a job id, None where it may.

    Args:
        job_id: The job.
        token_id: The token that uses it now.
        owners: The token that each known job belongs to.
    """
    if owners.get(job_id, token_id) == token_id:
        return None
    return JobConflict(
        f"job {job_id} was first used with another token; nothing was stored. Use a job id of your own, a new UUID"
    )
