# SPDX-License-Identifier: Apache-2.0
"""Indexes for jobs' reports, and for their paired tests: a page of a study reads those alone, of however many."""

import sqlalchemy as sa
from alembic import op

revision = "job_reports"
down_revision = "token_usage"
branch_labels = None
depends_on = None

REPORTS, TESTS = "ix_reports_study_id_job_id_received_unix_s", "ix_reports_tests"


def upgrade() -> None:
    """Add the indexes; results without a paired test are not in the second."""
    op.create_index(REPORTS, "reports", ["study_id", "job_id", "received_unix_s"])
    is_test = sa.text("speedup IS NOT NULL")
    op.create_index(TESTS, "reports", ["study_id", "job_id", "number"], sqlite_where=is_test, postgresql_where=is_test)


def downgrade() -> None:
    """Drop the indexes."""
    op.drop_index(TESTS, "reports")
    op.drop_index(REPORTS, "reports")
