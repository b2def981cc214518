# SPDX-License-Identifier: Apache-2.0
"""The ledger: studies, trials under leases, reports, runs, tokens, the audit."""

import sqlalchemy as sa
from alembic import op

revision = "ledger"
down_revision = None
branch_labels = None
depends_on = None

NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Create the tables."""
    _create_studies()
    _create_trials()
    _create_queued_suggestions()
    _create_reports()
    _create_runs()
    _create_access()


def downgrade() -> None:
    """Drop the tables with all that is in them."""
    for table in ("audit", "tokens", "runs", "reports", "queued_suggestions", "trials", "studies"):
        op.drop_table(table)


def _study(*, primary_key: bool = False) -> "sa.Column[str]":
    return sa.Column("study_id", sa.String(32), primary_key=primary_key, nullable=False)


def _study_exists(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(["study_id"], ["studies.study_id"], name=f"fk_{table}_study_id", ondelete="CASCADE")


def _create_studies() -> None:
    op.create_table(
        "studies",
        sa.Column("study_id", sa.String(32), nullable=False),
        sa.Column("key_digest", sa.String(64), nullable=False),
        sa.Column("hardware", sa.String(64), nullable=False),
        sa.Column("model", sa.String(64), nullable=False),
        sa.Column("layout", sa.Text, nullable=False),
        sa.Column("target", sa.String(64), nullable=False),
        sa.Column("surface_version", sa.Integer, nullable=False),
        sa.Column("model_name", sa.Text),
        sa.Column("hardware_name", sa.Text),
        sa.Column("space", sa.Text, nullable=False),
        sa.Column("gradient_bytes", sa.Text, nullable=False),
        sa.Column("created_unix_s", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("study_id", name="pk_studies"),
        sa.UniqueConstraint("key_digest", name="uq_studies_key_digest"),
    )
    op.create_index("ix_studies_model_target_surface_version", "studies", ["model", "target", "surface_version"])
    op.create_index("ix_studies_hardware_target_surface_version", "studies", ["hardware", "target", "surface_version"])
    op.create_index("ix_studies_model_name", "studies", ["model_name"])
    op.create_index("ix_studies_created_unix_s_study_id", "studies", ["created_unix_s", "study_id"])


def _create_trials() -> None:
    op.create_table(
        "trials",
        _study(),
        sa.Column("trial_id", sa.String(64), nullable=False),
        sa.Column("job_id", sa.String(64), nullable=False),
        sa.Column("config", sa.Text, nullable=False),
        sa.Column("config_digest", sa.String(64), nullable=False),
        sa.Column("designer", sa.String(64), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("fencing_token", sa.Integer, nullable=False),
        sa.Column("asked_unix_s", sa.Double, nullable=False),
        sa.Column("expires_unix_s", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("study_id", "trial_id", name="pk_trials"),
        _study_exists("trials"),
    )
    op.create_index("ix_trials_study_id_state_expires_unix_s", "trials", ["study_id", "state", "expires_unix_s"])


def _create_queued_suggestions() -> None:
    op.create_table(
        "queued_suggestions",
        sa.Column("number", NUMBER, primary_key=True, autoincrement=True),
        _study(),
        sa.Column("config", sa.Text, nullable=False),
        sa.Column("config_digest", sa.String(64), nullable=False),
        sa.Column("designer", sa.String(64), nullable=False),
        _study_exists("queued_suggestions"),
        sa.UniqueConstraint("study_id", "config_digest", name="uq_queued_suggestions_study_id_config_digest"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_queued_suggestions_study_id_number", "queued_suggestions", ["study_id", "number"])


def _create_reports() -> None:
    op.create_table(
        "reports",
        sa.Column("number", NUMBER, primary_key=True, autoincrement=True),
        _study(),
        sa.Column("trial_id", sa.String(64), nullable=False),
        sa.Column("job_id", sa.String(64), nullable=False),
        sa.Column("run_id", sa.String(64)),
        sa.Column("body_digest", sa.String(64), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("status_reason", sa.Text),
        sa.Column("phase", sa.String(16), nullable=False),
        sa.Column("config", sa.Text, nullable=False),
        sa.Column("config_digest", sa.String(64), nullable=False),
        sa.Column("score_bytes_per_s", sa.Double),
        sa.Column("median_step_ms", sa.Double),
        sa.Column("mad_step_ms", sa.Double),
        sa.Column("mean_step_ms", sa.Double),
        sa.Column("steps", sa.BigInteger, nullable=False),
        sa.Column("valid", sa.Boolean, nullable=False),
        sa.Column("void_reason", sa.String(32)),
        sa.Column("speedup", sa.Double),
        sa.Column("ci_low", sa.Double),
        sa.Column("ci_high", sa.Double),
        sa.Column("pairs", sa.Integer),
        sa.Column("received_unix_s", sa.Double, nullable=False),
        _study_exists("reports"),
        sa.UniqueConstraint("study_id", "trial_id", name="uq_reports_study_id_trial_id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_reports_study_id_number", "reports", ["study_id", "number"])
    op.create_index("ix_reports_received_unix_s", "reports", ["received_unix_s"])


def _create_runs() -> None:
    op.create_table(
        "runs",
        sa.Column("run_id", sa.String(64), nullable=False),
        _study(),
        sa.Column("job_id", sa.String(64), nullable=False),
        sa.Column("body_digest", sa.String(64), nullable=False),
        sa.Column("header", sa.Text, nullable=False),
        sa.Column("results", sa.Integer, nullable=False),
        sa.Column("received_unix_s", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("run_id", name="pk_runs"),
        _study_exists("runs"),
    )
    op.create_index("ix_runs_study_id", "runs", ["study_id"])


def _create_access() -> None:
    op.create_table(
        "tokens",
        sa.Column("token_id", sa.String(32), nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("scopes", sa.String(64), nullable=False),
        sa.Column("secret_sha256", sa.String(64), nullable=False),
        sa.Column("created_unix_s", sa.Double, nullable=False),
        sa.Column("revoked_unix_s", sa.Double),
        sa.PrimaryKeyConstraint("token_id", name="pk_tokens"),
    )
    op.create_table(
        "audit",
        sa.Column("number", NUMBER, primary_key=True, autoincrement=True),
        sa.Column("happened_unix_s", sa.Double, nullable=False),
        sa.Column("event", sa.String(32), nullable=False),
        sa.Column("subject", sa.String(64), nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
        sqlite_autoincrement=True,
    )
