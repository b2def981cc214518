# SPDX-License-Identifier: Apache-2.0
"""Suggestions that were computed for jobs whose search space is not the study's; those that wait are the study's."""

import sqlalchemy as sa
from alembic import op

revision = "own_spaces"
down_revision = "baselines"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; a program before this one goes on to fill the queue, for the study's own space."""
    op.add_column("queued_suggestions", sa.Column("space_digest", sa.String(64), nullable=False, server_default=""))


def downgrade() -> None:
    """Remove the waiting ones, for the program before this one would give them to any job, and drop the column."""
    op.execute("DELETE FROM queued_suggestions")
    op.drop_column("queued_suggestions", "space_digest")
