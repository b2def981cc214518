# SPDX-License-Identifier: Apache-2.0
"""Indexes for the newest verdicts of a study: its jobs' last facts, and their paired tests."""

import sqlalchemy as sa
from alembic import op

revision = "verdict_order"
down_revision = "later_knobs"
branch_labels = None
depends_on = None

FACTS, TESTS = "ix_job_facts_study_id_heard_unix_s", "ix_job_summaries_study_id_tested_unix_s"


def upgrade() -> None:
    """Add the indexes; rows without a paired test are in neither."""
    is_tested = sa.text("tested_unix_s IS NOT NULL")
    op.create_index(FACTS, "job_facts", ["study_id", "heard_unix_s"])
    op.create_index(
        TESTS, "job_summaries", ["study_id", "tested_unix_s"], sqlite_where=is_tested, postgresql_where=is_tested
    )


def downgrade() -> None:
    """Drop the indexes."""
    op.drop_index(TESTS, "job_summaries")
    op.drop_index(FACTS, "job_facts")
