# SPDX-License-Identifier: Apache-2.0
"""Reporters: each row keeps the id of its token, a job belongs to one token, and votes are counted by reporter.

Rows that are older have no token on record. Where tokens exist they count as one reporter, `unrecorded`; where the
service was open they count by job, as new ones there do. The summaries are derived anew.
"""

import sqlalchemy as sa
from alembic import op

revision = "reporters"
down_revision = "job_facts"
branch_labels = None
depends_on = None

RANK = "ix_config_summaries_rank"
OLD_RANK_COLUMNS = ["study_id", "is_promising", "is_confirmed", "is_over_default", "ci_low"]
RANK_COLUMNS = [
    "study_id",
    "is_promising",
    "is_over_default",
    "is_supported",
    "beaten",
    "adopted",
    "leaning",
    "minus_since_s",
    "config_digest",
]
WITH_TOKEN = ("trials", "reports", "runs")
JOB_COLUMNS = (
    "token_id",
    "compared",
    "log_gain_low_e9",
    "log_gain_high_e9",
    "open_windows",
    "first_unix_s",
    "tested_unix_s",
)
COUNTS = ("reporters", "trusted_jobs", "adopted", "opposed", "leaning", "beaten")


def upgrade() -> None:
    """Add the columns and tables; the service derives the summaries when it starts."""
    for table in WITH_TOKEN:
        op.add_column(table, sa.Column("token_id", sa.String(32)))
        op.execute(f"UPDATE {table} SET token_id = 'unrecorded' WHERE EXISTS (SELECT 1 FROM tokens)")  # noqa: S608
    op.add_column("reports", sa.Column("ci_level", sa.Double))
    op.create_index("ix_reports_token_id_study_id", "reports", ["token_id", "study_id"])
    many_jobs = sa.Column("has_many_jobs", sa.Boolean, nullable=False, server_default=sa.false())
    op.add_column("tokens", many_jobs)
    _create_jobs()
    _create_reporter_summaries()
    _extend_job_summaries()
    _extend_config_summaries()


def downgrade() -> None:
    """Drop the additions; the rows stay, without their reporters."""
    op.drop_index(RANK, "config_summaries")
    op.create_index(RANK, "config_summaries", OLD_RANK_COLUMNS)
    for column in ("is_supported", *COUNTS, "minus_since_s"):
        op.drop_column("config_summaries", column)
    for column in JOB_COLUMNS:
        op.drop_column("job_summaries", column)
    op.drop_table("reporter_summaries")
    op.drop_table("jobs")
    op.drop_column("tokens", "has_many_jobs")
    op.drop_index("ix_reports_token_id_study_id", "reports")
    op.drop_column("reports", "ci_level")
    for table in WITH_TOKEN:
        op.drop_column(table, "token_id")


def _create_jobs() -> None:
    op.create_table(
        "jobs",
        sa.Column("job_id", sa.String(64), nullable=False),
        sa.Column("token_id", sa.String(32)),
        sa.Column("first_unix_s", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("job_id", name="pk_jobs"),
    )


def _create_reporter_summaries() -> None:
    op.create_table(
        "reporter_summaries",
        sa.Column("study_id", sa.String(32), nullable=False),
        sa.Column("config_digest", sa.String(64), nullable=False),
        sa.Column("reporter", sa.String(80), nullable=False),
        sa.Column("token_id", sa.String(32)),
        sa.Column("jobs", sa.Integer, nullable=False),
        sa.Column("tests", sa.Integer, nullable=False),
        sa.Column("windows", sa.Integer, nullable=False),
        sa.Column("stand", sa.String(16), nullable=False),
        sa.Column("speedup", sa.Double, nullable=False),
        sa.Column("ci_low", sa.Double, nullable=False),
        sa.Column("ci_high", sa.Double, nullable=False),
        sa.Column("since_unix_s", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("study_id", "config_digest", "reporter", name="pk_reporter_summaries"),
        sa.ForeignKeyConstraint(
            ["study_id"], ["studies.study_id"], name="fk_reporter_summaries_study_id", ondelete="CASCADE"
        ),
    )
    op.create_index("ix_reporter_summaries_study_id_stand", "reporter_summaries", ["study_id", "stand"])


def _extend_job_summaries() -> None:
    op.add_column("job_summaries", sa.Column("token_id", sa.String(32)))
    for name in ("compared", "log_gain_low_e9", "log_gain_high_e9"):
        op.add_column("job_summaries", sa.Column(name, sa.BigInteger, nullable=False, server_default="0"))
    op.add_column("job_summaries", sa.Column("open_windows", sa.Text))
    op.add_column("job_summaries", sa.Column("first_unix_s", sa.Double, nullable=False, server_default="0"))
    op.add_column("job_summaries", sa.Column("tested_unix_s", sa.Double))


def _extend_config_summaries() -> None:
    supported = sa.Column("is_supported", sa.Boolean, nullable=False, server_default=sa.false())
    op.add_column("config_summaries", supported)
    for name in COUNTS:
        op.add_column("config_summaries", sa.Column(name, sa.Integer, nullable=False, server_default="0"))
    op.add_column("config_summaries", sa.Column("minus_since_s", sa.Double, nullable=False, server_default="0"))
    op.drop_index(RANK, "config_summaries")
    op.create_index(RANK, "config_summaries", RANK_COLUMNS)
