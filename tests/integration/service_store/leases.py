# SPDX-License-Identifier: Apache-2.0
"""Leases that are over before their time."""

from sqlalchemy import update

from ringtune.service.store import Database
from ringtune.service.store.tables import trials


def end_lease(database: Database, trial_id: str) -> None:
    """Let a lease be over, as if its time had passed."""
    with database.writing() as connection:
        connection.execute(update(trials).where(trials.c.trial_id == trial_id).values(expires_unix_s=1.0))
