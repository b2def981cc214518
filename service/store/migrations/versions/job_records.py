# SPDX-License-Identifier: Apache-2.0
"""A row per job with the sums of its results, so that no list reads the results of all jobs."""

import sqlalchemy as sa
from alembic import op

revision = "job_records"
down_revision = "said_names"
branch_labels = None
depends_on = None

ORDER = ["study_id", "newest_unix_s", "job_id", "longest_gap_s", "test_ci_low"]
SUMS = ["study_id", "baseline_digest", "trials", "used_unix_s", "baseline_log_step"]


def upgrade() -> None:
    """Create the table; the service derives its rows when it starts."""
    op.create_table(
        "job_records",
        sa.Column("study_id", sa.String(32), nullable=False),
        sa.Column("job_id", sa.String(64), nullable=False),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in ("results", "trials")),
        *(sa.Column(name, sa.Double, nullable=False) for name in ("first_unix_s", "newest_unix_s", "longest_gap_s")),
        *(sa.Column(name, sa.Double) for name in ("used_unix_s", "test_ci_low")),
        sa.Column("baseline_digest", sa.String(64)),
        sa.Column("baseline_log_step", sa.Double),
        sa.PrimaryKeyConstraint("study_id", "job_id", name="pk_job_records"),
        sa.ForeignKeyConstraint(["study_id"], ["studies.study_id"], name="fk_job_records_study_id", ondelete="CASCADE"),
    )
    op.create_index("ix_job_records_order", "job_records", ORDER)
    op.create_index("ix_job_records_sums", "job_records", SUMS)


def downgrade() -> None:
    """Drop the table."""
    op.drop_table("job_records")
