# SPDX-License-Identifier: Apache-2.0
"""The tables. `reports` is the ledger: rows are added, and removed whole by deletion or retention, never changed.

`job_summaries`, `job_records`, `reporter_summaries` and `config_summaries` are derived from it and can be rebuilt.
Whole numbers in names with `_e9` and `_e12` are sums in units of 1e-9 and 1e-12, so that no rounding adds up.

`token_id` is the id of the token that a row came with, never its secret: NULL where the service was open (loopback, no
token), `unrecorded` where the row is older than the column and tokens existed.

Times are seconds since 1970 by the database's clock. JSON is text: no query looks into it.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    false,
    text,
)

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s",
    "pk": "pk_%(table_name)s",
}
METADATA = MetaData(naming_convention=NAMING)
Number = BigInteger().with_variant(Integer(), "sqlite")
"""SQLite counts up by itself in a column of exactly this type."""

IS_TESTED = text("tested_unix_s IS NOT NULL")
"""Condition of the index on paired tests: most rows are of windows alone."""

RANK = ("is_over_default", "is_supported", "beaten", "adopted", "leaning", "minus_since_s", "config_digest")
"""Columns that order promising configs, the largest first. `minus_since_s` is minus the time when a config was first
spoken for, so that one index, read in one direction, has the order.
"""


def _study() -> Column[str]:
    return Column("study_id", String(32), ForeignKey("studies.study_id", ondelete="CASCADE"), nullable=False)


def _token() -> Column[str]:
    return Column("token_id", String(32))


def _study_in_key() -> Column[str]:
    return Column("study_id", String(32), ForeignKey("studies.study_id", ondelete="CASCADE"), primary_key=True)


studies = Table(
    "studies",
    METADATA,
    Column("study_id", String(32), primary_key=True),
    Column("key_digest", String(64), nullable=False, unique=True),
    Column("hardware", String(64), nullable=False),
    Column("model", String(64), nullable=False),
    Column("layout", Text, nullable=False),
    Column("target", String(64), nullable=False),
    Column("surface_version", Integer, nullable=False),
    Column("model_name", Text),
    Column("hardware_name", Text),
    Column("machines", Text),
    Column("machines_text", Text),
    Column("space", Text, nullable=False),
    Column("gradient_bytes", Text, nullable=False),
    Column("created_unix_s", Double, nullable=False),
    Index(None, "model", "target", "surface_version"),
    Index(None, "hardware", "target", "surface_version"),
    Index(None, "model_name"),
    Index(None, "created_unix_s", "study_id"),
)

said_spaces = Table(
    "said_spaces",
    METADATA,
    _study_in_key(),
    Column("token_id", String(32), primary_key=True),
    Column("space_digest", String(64), primary_key=True),
    Column("space", Text, nullable=False),
    Column("said_unix_s", Double, nullable=False),
)
"""Search spaces by the token that said them; `token_id` is empty where the service was open."""

said_names = Table(
    "said_names",
    METADATA,
    _study_in_key(),
    Column("token_id", String(32), primary_key=True),
    Column("model_name", Text),
    Column("hardware_name", Text),
    Column("machines", Text),
    Column("machines_text", Text),
    Column("said_unix_s", Double, nullable=False),
)
"""Names by the token that gave them; `token_id` is empty where the service was open. A study's own columns have those
that most tokens gave.
"""

trials = Table(
    "trials",
    METADATA,
    _study_in_key(),
    Column("trial_id", String(64), primary_key=True),
    Column("job_id", String(64), nullable=False),
    _token(),
    Column("config", Text, nullable=False),
    Column("config_digest", String(64), nullable=False),
    Column("designer", String(64), nullable=False),
    Column("state", String(16), nullable=False),
    Column("fencing_token", Integer, nullable=False),
    Column("asked_unix_s", Double, nullable=False),
    Column("expires_unix_s", Double, nullable=False),
    Column("space_digest", String(64)),
    Column("is_handed_on", Boolean, nullable=False, server_default=false()),
    Index(None, "study_id", "state", "expires_unix_s"),
)

queued_suggestions = Table(
    "queued_suggestions",
    METADATA,
    Column("number", Number, primary_key=True, autoincrement=True),
    _study(),
    Column("space_digest", String(64), nullable=False, server_default=""),
    Column("config", Text, nullable=False),
    Column("config_digest", String(64), nullable=False),
    Column("designer", String(64), nullable=False),
    UniqueConstraint("study_id", "config_digest"),
    Index(None, "study_id", "number"),
    sqlite_autoincrement=True,
)

reports = Table(
    "reports",
    METADATA,
    Column("number", Number, primary_key=True, autoincrement=True),
    _study(),
    Column("trial_id", String(64), nullable=False),
    Column("job_id", String(64), nullable=False),
    _token(),
    Column("run_id", String(64)),
    Column("body_digest", String(64), nullable=False),
    Column("status", String(16), nullable=False),
    Column("status_reason", Text),
    Column("phase", String(16), nullable=False),
    Column("config", Text, nullable=False),
    Column("config_digest", String(64), nullable=False),
    Column("score_bytes_per_s", Double),
    Column("median_step_ms", Double),
    Column("mad_step_ms", Double),
    Column("mean_step_ms", Double),
    Column("steps", BigInteger, nullable=False),
    Column("valid", Boolean, nullable=False),
    Column("void_reason", String(32)),
    Column("speedup", Double),
    Column("ci_low", Double),
    Column("ci_high", Double),
    Column("ci_level", Double),
    Column("pairs", Integer),
    Column("received_unix_s", Double, nullable=False),
    UniqueConstraint("study_id", "trial_id"),
    Index(None, "study_id", "number"),
    Index(None, "received_unix_s"),
    Index(None, "token_id", "study_id"),
    Index(None, "study_id", "job_id", "received_unix_s"),
    Index(
        "ix_reports_tests",
        "study_id",
        "job_id",
        "number",
        sqlite_where=text("speedup IS NOT NULL"),
        postgresql_where=text("speedup IS NOT NULL"),
    ),
    sqlite_autoincrement=True,
)

runs = Table(
    "runs",
    METADATA,
    Column("run_id", String(64), primary_key=True),
    _study(),
    Column("job_id", String(64), nullable=False),
    _token(),
    Column("body_digest", String(64), nullable=False),
    Column("header", Text, nullable=False),
    Column("results", Integer, nullable=False),
    Column("received_unix_s", Double, nullable=False),
    Index(None, "study_id"),
)

job_facts = Table(
    "job_facts",
    METADATA,
    _study_in_key(),
    Column("job_id", String(64), primary_key=True),
    Column("state", String(16), nullable=False),
    Column("verdict", Text),
    Column("name", Text),
    Column("tags", Text, nullable=False),
    Column("code_commit", Text),
    Column("begun_unix_s", Double, nullable=False),
    Column("heard_unix_s", Double, nullable=False),
    Index(None, "study_id", "heard_unix_s"),
)
"""Reports of jobs about themselves; `state` is as they reported it last, whatever became of them since."""

jobs = Table(
    "jobs",
    METADATA,
    Column("job_id", String(64), primary_key=True),
    _token(),
    Column("first_unix_s", Double, nullable=False),
)

tokens = Table(
    "tokens",
    METADATA,
    Column("token_id", String(32), primary_key=True),
    Column("name", Text, nullable=False),
    Column("scopes", String(64), nullable=False),
    Column("secret_sha256", String(64), nullable=False),
    Column("created_unix_s", Double, nullable=False),
    Column("revoked_unix_s", Double),
    Column("has_many_jobs", Boolean, nullable=False, server_default=false()),
)

token_usage = Table(
    "token_usage",
    METADATA,
    Column("token_id", String(32), primary_key=True),
    Column("rows", Double, nullable=False),
    Column("size", Double, nullable=False),
    Column("jobs", Double, nullable=False),
    Column("at_unix_s", Double, nullable=False),
)
"""Levels of the tokens' budgets; `token_id` may be `setting:` and a scope, which no row of `tokens` has."""

page_sessions = Table(
    "page_sessions",
    METADATA,
    Column("session_sha256", String(64), primary_key=True),
    Column("token_id", String(32), nullable=False),
    Column("token_proof", String(64), nullable=False),
    Column("form_key_sha256", String(64)),
    Column("created_unix_s", Double, nullable=False),
    Column("seen_unix_s", Double, nullable=False),
    Index(None, "token_id", "seen_unix_s"),
)
"""Browsers that signed in. `token_id` may be `setting:` and a scope, which no row of `tokens` has. `token_proof` is the
HMAC of the token's secret under the session's id, which is not stored: it proves that a setting's token is still the
one that signed in, and does not help to guess that secret."""

audit = Table(
    "audit",
    METADATA,
    Column("number", Number, primary_key=True, autoincrement=True),
    Column("happened_unix_s", Double, nullable=False),
    Column("event", String(32), nullable=False),
    Column("subject", String(64), nullable=False),
    Column("detail", Text, nullable=False),
    sqlite_autoincrement=True,
)

job_summaries = Table(
    "job_summaries",
    METADATA,
    _study_in_key(),
    Column("job_id", String(64), primary_key=True),
    Column("config_digest", String(64), primary_key=True),
    Column("trials", BigInteger, nullable=False),
    Column("samples", BigInteger, nullable=False),
    Column("log_step_e9", BigInteger, nullable=False),
    Column("adoptions", BigInteger, nullable=False),
    Column("log_speedup_e9", BigInteger, nullable=False),
    Column("variance_e12", BigInteger, nullable=False),
    Column("newest_unix_s", Double, nullable=False),
    Column("baseline", Text),
    _token(),
    Column("compared", BigInteger, nullable=False, server_default="0"),
    Column("log_gain_low_e9", BigInteger, nullable=False, server_default="0"),
    Column("log_gain_high_e9", BigInteger, nullable=False, server_default="0"),
    Column("open_windows", Text),
    Column("first_unix_s", Double, nullable=False, server_default="0"),
    Column("tested_unix_s", Double),
    Index(None, "study_id", "config_digest"),
    Index(None, "study_id", "tested_unix_s", sqlite_where=IS_TESTED, postgresql_where=IS_TESTED),
)

job_records = Table(
    "job_records",
    METADATA,
    _study_in_key(),
    Column("job_id", String(64), primary_key=True),
    Column("results", BigInteger, nullable=False),
    Column("trials", BigInteger, nullable=False),
    Column("first_unix_s", Double, nullable=False),
    Column("newest_unix_s", Double, nullable=False),
    Column("longest_gap_s", Double, nullable=False),
    Column("used_unix_s", Double),
    Column("test_ci_low", Double),
    Column("baseline_digest", String(64)),
    Column("baseline_log_step", Double),
    Index("ix_job_records_order", "study_id", "newest_unix_s", "job_id", "longest_gap_s", "test_ci_low"),
    Index("ix_job_records_sums", "study_id", "baseline_digest", "trials", "used_unix_s", "baseline_log_step"),
)
"""A row per job, so that lists of jobs, and sums over them, need not read their results. `trials` and `used_unix_s` are
of results that count. Each index has all that one kind of query reads.
"""

reporter_summaries = Table(
    "reporter_summaries",
    METADATA,
    _study_in_key(),
    Column("config_digest", String(64), primary_key=True),
    Column("reporter", String(80), primary_key=True),
    _token(),
    Column("jobs", Integer, nullable=False),
    Column("tests", Integer, nullable=False),
    Column("windows", Integer, nullable=False),
    Column("stand", String(16), nullable=False),
    Column("speedup", Double, nullable=False),
    Column("ci_low", Double, nullable=False),
    Column("ci_high", Double, nullable=False),
    Column("since_unix_s", Double, nullable=False),
    Index(None, "study_id", "stand"),
)

config_summaries = Table(
    "config_summaries",
    METADATA,
    _study_in_key(),
    Column("config_digest", String(64), primary_key=True),
    Column("config", Text, nullable=False),
    Column("trials", BigInteger, nullable=False),
    Column("jobs", Integer, nullable=False),
    Column("is_supported", Boolean, nullable=False, server_default=false()),
    Column("is_confirmed", Boolean, nullable=False),
    Column("is_promising", Boolean, nullable=False),
    Column("baseline", Text),
    Column("is_over_default", Boolean, nullable=False, server_default=false()),
    Column("speedup", Double),
    Column("ci_low", Double),
    Column("ci_high", Double),
    Column("newest_unix_s", Double, nullable=False),
    Column("reporters", Integer, nullable=False, server_default="0"),
    Column("trusted_jobs", Integer, nullable=False, server_default="0"),
    Column("adopted", Integer, nullable=False, server_default="0"),
    Column("opposed", Integer, nullable=False, server_default="0"),
    Column("leaning", Integer, nullable=False, server_default="0"),
    Column("beaten", Integer, nullable=False, server_default="0"),
    Column("minus_since_s", Double, nullable=False, server_default="0"),
    Index("ix_config_summaries_rank", "study_id", "is_promising", *RANK),
)
