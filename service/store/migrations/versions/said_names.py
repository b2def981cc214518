# SPDX-License-Identifier: Apache-2.0
"""Names of models and machines by the token that gave them; those from before count as one token's, `unrecorded`."""

import sqlalchemy as sa
from alembic import op

revision = "said_names"
down_revision = "verdict_order"
branch_labels = None
depends_on = None

NAMES = "model_name, hardware_name, machines, machines_text"


def upgrade() -> None:
    """Add the table, with the names that there are."""
    op.create_table(
        "said_names",
        sa.Column("study_id", sa.String(32), nullable=False),
        sa.Column("token_id", sa.String(32), nullable=False),
        *(sa.Column(name, sa.Text) for name in NAMES.split(", ")),
        sa.Column("said_unix_s", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("study_id", "token_id", name="pk_said_names"),
        sa.ForeignKeyConstraint(["study_id"], ["studies.study_id"], name="fk_said_names_study_id", ondelete="CASCADE"),
    )
    op.execute(
        f"INSERT INTO said_names (study_id, token_id, {NAMES}, said_unix_s) "  # noqa: S608
        f"SELECT study_id, 'unrecorded', {NAMES}, created_unix_s FROM studies"
    )


def downgrade() -> None:
    """Drop the table; a study keeps the names that most tokens gave."""
    op.drop_table("said_names")
