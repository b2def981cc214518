# SPDX-License-Identifier: Apache-2.0
"""Sessions of browsers that signed in: random ids, kept as hashes, which end on their own or with their token."""

import sqlalchemy as sa
from alembic import op

revision = "page_sessions"
down_revision = "reporters"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "page_sessions",
        sa.Column("session_sha256", sa.String(64), nullable=False),
        sa.Column("token_id", sa.String(32), nullable=False),
        sa.Column("token_proof", sa.String(64), nullable=False),
        sa.Column("form_key_sha256", sa.String(64)),
        sa.Column("created_unix_s", sa.Double, nullable=False),
        sa.Column("seen_unix_s", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("session_sha256", name="pk_page_sessions"),
    )
    op.create_index("ix_page_sessions_token_id_seen_unix_s", "page_sessions", ["token_id", "seen_unix_s"])


def downgrade() -> None:
    """Drop the table: everybody signs in again."""
    op.drop_table("page_sessions")
