# SPDX-License-Identifier: Apache-2.0
"""Job ids belong to the token that used them first, in whatever call."""

from collections.abc import Mapping

from sqlalchemy import Connection

from ringtune.service.errors import JobConflict
from ringtune.service.store import jobs
from ringtune.service.store.clock import now_unix_s

from .budgets import Budgets
from .policy import ServiceLimits


def claim(connection: Connection, job_id: str, token_id: str | None, limits: ServiceLimits) -> None:
    """Use a job id with a token.

    Raises:
        JobConflict: If it belongs to another token.
        QuotaExceeded: If it is new, and the token has begun as many jobs as one may.
    """
    claim_all(connection, {job_id: token_id}, limits)


def claim_all(connection: Connection, tokens: Mapping[str, str | None], limits: ServiceLimits) -> None:
    """Use job ids with the token of each; see `claim`."""
    budgets = Budgets.load(connection, set(tokens.values()), limits)
    owners = jobs.claim(connection, tokens, now_unix_s(connection), budgets.may_begin)
    for job_id, token_id in sorted(tokens.items()):
        if (refusal := budgets.no_more_jobs(token_id) if job_id not in owners else None) is not None:
            raise refusal
        if (conflict := conflict_of(job_id, token_id, owners)) is not None:
            raise conflict
    budgets.save(connection)


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
