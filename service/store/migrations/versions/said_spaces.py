# SPDX-License-Identifier: Apache-2.0
"""Search spaces by the token that said them, and for which of them a suggestion was made."""

import sqlalchemy as sa
from alembic import op

revision = "said_spaces"
down_revision = "layout_defaults"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table and the columns; a lease from before goes back to its own token alone."""
    op.create_table(
        "said_spaces",
        sa.Column("study_id", sa.String(32), nullable=False),
        sa.Column("token_id", sa.String(32), nullable=False),
        sa.Column("space_digest", sa.String(64), nullable=False),
        sa.Column("space", sa.Text, nullable=False),
        sa.Column("said_unix_s", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("study_id", "token_id", "space_digest", name="pk_said_spaces"),
        sa.ForeignKeyConstraint(["study_id"], ["studies.study_id"], name="fk_said_spaces_study_id", ondelete="CASCADE"),
    )
    op.add_column("trials", sa.Column("space_digest", sa.String(64)))
    handed_on = sa.Column("is_handed_on", sa.Boolean, nullable=False, server_default=sa.false())
    op.add_column("trials", handed_on)


def downgrade() -> None:
    """Drop them: the first job's space is a study's again."""
    op.drop_column("trials", "is_handed_on")
    op.drop_column("trials", "space_digest")
    op.drop_table("said_spaces")
