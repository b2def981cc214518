# SPDX-License-Identifier: Apache-2.0
"""Baselines of speed-ups: jobs with different baselines are told apart. The summaries are derived anew."""

import sqlalchemy as sa
from alembic import op

revision = "baselines"
down_revision = "summaries"
branch_labels = None
depends_on = None

RANK = "ix_config_summaries_rank"
OLD_RANK = "ix_config_summaries_study_id_is_promising_is_confirmed_ci_low"
OLD_RANK_COLUMNS = ["study_id", "is_promising", "is_confirmed", "ci_low"]
RANK_COLUMNS = ["study_id", "is_promising", "is_confirmed", "is_over_default", "ci_low"]


def upgrade() -> None:
    """Add the columns; the service fills them when it starts."""
    op.add_column("job_summaries", sa.Column("baseline", sa.Text))
    op.add_column("config_summaries", sa.Column("baseline", sa.Text))
    over_default = sa.Column("is_over_default", sa.Boolean, nullable=False, server_default=sa.false())
    op.add_column("config_summaries", over_default)
    op.drop_index(OLD_RANK, "config_summaries")
    op.create_index(RANK, "config_summaries", RANK_COLUMNS)


def downgrade() -> None:
    """Drop the columns; the rows stay, for the program before this one does not derive them anew."""
    op.drop_index(RANK, "config_summaries")
    op.create_index(OLD_RANK, "config_summaries", OLD_RANK_COLUMNS)
    for table, column in (
        ("config_summaries", "is_over_default"),
        ("config_summaries", "baseline"),
        ("job_summaries", "baseline"),
    ):
        op.drop_column(table, column)
