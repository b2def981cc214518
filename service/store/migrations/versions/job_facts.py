# SPDX-License-Identifier: Apache-2.0
"""Facts that jobs tell of themselves (state, verdict, name, tags, commit), and their machines."""

import sqlalchemy as sa
from alembic import op

revision = "job_facts"
down_revision = "own_spaces"
branch_labels = None
depends_on = None

MACHINES = ("machines", "machines_text")


def upgrade() -> None:
    """Add the table and the columns; jobs that reported before have none of these facts."""
    op.create_table(
        "job_facts",
        sa.Column("study_id", sa.String(32), nullable=False),
        sa.Column("job_id", sa.String(64), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("verdict", sa.Text),
        sa.Column("name", sa.Text),
        sa.Column("tags", sa.Text, nullable=False),
        sa.Column("code_commit", sa.Text),
        sa.Column("begun_unix_s", sa.Double, nullable=False),
        sa.Column("heard_unix_s", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("study_id", "job_id", name="pk_job_facts"),
        sa.ForeignKeyConstraint(["study_id"], ["studies.study_id"], name="fk_job_facts_study_id", ondelete="CASCADE"),
    )
    for column in MACHINES:
        op.add_column("studies", sa.Column(column, sa.Text))


def downgrade() -> None:
    """Drop them; no other row is derived from them."""
    for column in reversed(MACHINES):
        op.drop_column("studies", column)
    op.drop_table("job_facts")
