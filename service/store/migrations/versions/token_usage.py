# SPDX-License-Identifier: Apache-2.0
"""Usage of the service by token, so that none fills the disk for all."""

import sqlalchemy as sa
from alembic import op

revision = "token_usage"
down_revision = "said_spaces"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table; rows that were stored before are not counted."""
    op.create_table(
        "token_usage",
        sa.Column("token_id", sa.String(32), nullable=False),
        *(sa.Column(name, sa.Double, nullable=False) for name in ("rows", "size", "jobs", "at_unix_s")),
        sa.PrimaryKeyConstraint("token_id", name="pk_token_usage"),
    )


def downgrade() -> None:
    """Drop the table."""
    op.drop_table("token_usage")
