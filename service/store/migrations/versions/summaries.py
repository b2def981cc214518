# SPDX-License-Identifier: Apache-2.0
"""The summaries: derived from the ledger, so that a recommendation is one indexed read. They begin empty."""

import sqlalchemy as sa
from alembic import op

revision = "summaries"
down_revision = "ledger"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables; the service rebuilds their rows when it starts."""
    op.create_table(
        "job_summaries",
        sa.Column("study_id", sa.String(32), nullable=False),
        sa.Column("job_id", sa.String(64), nullable=False),
        sa.Column("config_digest", sa.String(64), nullable=False),
        sa.Column("trials", sa.BigInteger, nullable=False),
        sa.Column("samples", sa.BigInteger, nullable=False),
        sa.Column("log_step_e9", sa.BigInteger, nullable=False),
        sa.Column("adoptions", sa.BigInteger, nullable=False),
        sa.Column("log_speedup_e9", sa.BigInteger, nullable=False),
        sa.Column("variance_e12", sa.BigInteger, nullable=False),
        sa.Column("newest_unix_s", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("study_id", "job_id", "config_digest", name="pk_job_summaries"),
        _study_exists("job_summaries"),
    )
    op.create_index("ix_job_summaries_study_id_config_digest", "job_summaries", ["study_id", "config_digest"])
    op.create_table(
        "config_summaries",
        sa.Column("study_id", sa.String(32), nullable=False),
        sa.Column("config_digest", sa.String(64), nullable=False),
        sa.Column("config", sa.Text, nullable=False),
        sa.Column("trials", sa.BigInteger, nullable=False),
        sa.Column("jobs", sa.Integer, nullable=False),
        sa.Column("is_confirmed", sa.Boolean, nullable=False),
        sa.Column("is_promising", sa.Boolean, nullable=False),
        sa.Column("speedup", sa.Double),
        sa.Column("ci_low", sa.Double),
        sa.Column("ci_high", sa.Double),
        sa.Column("newest_unix_s", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("study_id", "config_digest", name="pk_config_summaries"),
        _study_exists("config_summaries"),
    )
    op.create_index(
        "ix_config_summaries_study_id_is_promising_is_confirmed_ci_low",
        "config_summaries",
        ["study_id", "is_promising", "is_confirmed", "ci_low"],
    )


def downgrade() -> None:
    """Drop the tables; the ledger has all that they were derived from."""
    op.drop_table("config_summaries")
    op.drop_table("job_summaries")


def _study_exists(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(["study_id"], ["studies.study_id"], name=f"fk_{table}_study_id", ondelete="CASCADE")
