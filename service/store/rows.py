# SPDX-License-Identifier: Apache-2.0
"""Rows of the database, typed: one class per table, and one per query that returns something else.

The fields of a table's class are its columns, by name and type. JSON columns stay text in their field, because equal
values have equal texts, which are compared, grouped by and digested; a property decodes each.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar

from sqlalchemy import Result

Status: TypeAlias = Literal["new", "same", "late", "quarantined", "conflict", "refused"]
SaidState: TypeAlias = Literal["running", "adopted", "keeping_default", "ended_early"]

RowType = TypeVar("RowType")


def all_of(found: Result[Any], kind: Callable[..., RowType]) -> Sequence[RowType]:
    """Return all rows of a result as `kind`, whose fields are its columns."""
    names = tuple(found.keys())
    return [kind(**dict(zip(names, row, strict=True))) for row in found]  # half of the time of SQLAlchemy's mappings


def one_of(found: Result[Any], kind: Callable[..., RowType]) -> RowType | None:
    """Return the first row of a result, which has no second one, as `kind`; None if it is empty."""
    return next(iter(all_of(found, kind)), None)


def columns_of(rows: Iterable[object]) -> list[dict[str, Any]]:
    """Return rows as columns by name, for an insert."""
    return [dict(vars(row)) for row in rows]


@dataclass(frozen=True, kw_only=True)
class StudyHead:
    """Narrow columns of `studies`."""

    study_id: str
    hardware: str
    model: str
    layout: str
    target: str
    surface_version: int
    model_name: str | None
    hardware_name: str | None
    machines_text: str | None
    created_unix_s: float

    @property
    def ranks_per_host(self) -> tuple[int, ...]:
        """The layout, sorted."""
        return tuple(json.loads(self.layout))


@dataclass(frozen=True, kw_only=True)
class StudyRow(StudyHead):
    """A row of `studies`."""

    key_digest: str
    machines: str | None = None
    space: str
    gradient_bytes: str

    @property
    def search_space(self) -> dict[str, Any]:
        """The search space as `SearchSpace.to_json()` writes it."""
        space: dict[str, Any] = json.loads(self.space)
        return space

    @property
    def tensor_bytes(self) -> tuple[int, ...]:
        """Bytes of each gradient; empty where no job reported them."""
        return tuple(json.loads(self.gradient_bytes))


@dataclass(frozen=True, kw_only=True)
class SaidSpaceRow:
    """A row of `said_spaces`; the token is empty where the service was open."""

    study_id: str
    token_id: str
    space_digest: str
    space: str
    said_unix_s: float

    @property
    def search_space(self) -> dict[str, Any]:
        """The search space as `SearchSpace.to_json()` writes it."""
        return decoded(self.space)


@dataclass(frozen=True, kw_only=True)
class SaidNamesRow:
    """A row of `said_names`; the token is empty where the service was open."""

    study_id: str
    token_id: str
    model_name: str | None = None
    hardware_name: str | None = None
    machines: str | None = None
    machines_text: str | None = None
    said_unix_s: float


@dataclass(frozen=True, kw_only=True)
class NeighbourRow(StudyRow):
    """A study with a promising config, and whether one of its configs is confirmed, or adopted by a paired test."""

    has_confirmed: bool
    has_adopted: bool


@dataclass(frozen=True, kw_only=True)
class ListedStudyRow(StudyHead):
    """A study in a list, with the seconds since it was created."""

    age_s: float


@dataclass(frozen=True)
class ModelRow:
    """A model that was measured, and its results that count."""

    model: str
    model_name: str | None
    trials: int


@dataclass(frozen=True)
class CountedRow:
    """Studies counted by a fingerprint of hardware or of a model; `others` counts fingerprints of the other kind."""

    fingerprint: str
    name: str | None
    machines: str | None
    studies: int
    others: int


@dataclass(frozen=True, kw_only=True)
class TrialRow:
    """A row of `trials`."""

    study_id: str
    trial_id: str
    job_id: str
    token_id: str | None
    config: str
    config_digest: str
    designer: str
    state: str
    fencing_token: int
    asked_unix_s: float
    expires_unix_s: float
    space_digest: str | None = None
    is_handed_on: bool = False

    @property
    def config_values(self) -> dict[str, Any]:
        """The config, by parameter."""
        return decoded(self.config)


@dataclass(frozen=True, kw_only=True)
class NewQueuedSuggestion:
    """A suggestion on its way into `queued_suggestions`."""

    study_id: str
    space_digest: str
    config: str
    config_digest: str
    designer: str


@dataclass(frozen=True, kw_only=True)
class QueuedSuggestionRow(NewQueuedSuggestion):
    """A row of `queued_suggestions`."""

    number: int


@dataclass(frozen=True, kw_only=True)
class StoredReport:
    """The columns of `reports` that tell a repeated result from a conflict."""

    study_id: str
    trial_id: str
    job_id: str
    body_digest: str
    status: Status = "new"
    status_reason: str | None = None


@dataclass(frozen=True, kw_only=True)
class NewReport(StoredReport):
    """A result on its way into `reports`; the writer sets status, reason and time."""

    token_id: str | None
    run_id: str | None
    phase: str
    config: str
    config_digest: str
    score_bytes_per_s: float | None
    median_step_ms: float | None
    mad_step_ms: float | None
    mean_step_ms: float | None
    steps: int
    valid: bool
    void_reason: str | None
    speedup: float | None
    ci_low: float | None
    ci_high: float | None
    ci_level: float | None
    pairs: int | None
    received_unix_s: float = 0.0

    def judged(self, status: Status, reason: str | None, received_unix_s: float) -> "NewReport":
        """Return the row with the columns that the writer sets; `dataclasses.replace` takes ten times as long."""
        row = object.__new__(NewReport)
        vars(row).update(vars(self), status=status, status_reason=reason, received_unix_s=received_unix_s)
        return row

    @property
    def config_values(self) -> dict[str, Any]:
        """The config, by parameter."""
        return decoded(self.config)


@dataclass(frozen=True, kw_only=True)
class ReportRow(NewReport):
    """A row of `reports`."""

    number: int


@dataclass(frozen=True, kw_only=True)
class AgedReport(ReportRow):
    """A row of `reports`, with the seconds since it was stored."""

    age_s: float


@dataclass(frozen=True, kw_only=True)
class RunRow:
    """A row of `runs`."""

    run_id: str
    study_id: str
    job_id: str
    token_id: str | None
    body_digest: str
    header: str
    results: int
    received_unix_s: float

    @property
    def first_record(self) -> dict[str, Any]:
        """The log's record of type `run`."""
        return decoded(self.header)


@dataclass(frozen=True, kw_only=True)
class AgedRun(RunRow):
    """A row of `runs`, with the seconds since it was stored."""

    age_s: float


@dataclass(frozen=True, kw_only=True)
class JobFactsRow:
    """A row of `job_facts`."""

    study_id: str
    job_id: str
    state: SaidState
    verdict: str | None
    name: str | None
    tags: str
    code_commit: str | None
    begun_unix_s: float
    heard_unix_s: float

    @property
    def tag_names(self) -> tuple[str, ...]:
        """The tags, in their order."""
        return tuple(json.loads(self.tags))


@dataclass(frozen=True, kw_only=True)
class AgedJobFacts(JobFactsRow):
    """A row of `job_facts`, with the seconds since the job's first and its last report of its state."""

    age_s: float
    idle_s: float


@dataclass(frozen=True, kw_only=True)
class TokenRow:
    """A row of `tokens`."""

    token_id: str
    name: str
    scopes: str
    secret_sha256: str
    created_unix_s: float
    revoked_unix_s: float | None
    has_many_jobs: bool


@dataclass(frozen=True, kw_only=True)
class TokenUsageRow:
    """A row of `token_usage`: the stored amount that a token has not got back yet, at a time."""

    token_id: str
    rows: float
    size: float
    jobs: float
    at_unix_s: float


@dataclass(frozen=True, kw_only=True)
class AgedToken(TokenRow):
    """A row of `tokens`, with the seconds since it was created."""

    age_s: float


@dataclass(frozen=True, kw_only=True)
class NewPageSession:
    """A session on its way into `page_sessions`; the database sets its times."""

    session_sha256: str
    token_id: str
    token_proof: str
    form_key_sha256: str | None


@dataclass(frozen=True, kw_only=True)
class PageSessionRow(NewPageSession):
    """A row of `page_sessions`, its token's columns (None without a token), and ages in seconds."""

    created_unix_s: float
    seen_unix_s: float
    name: str | None
    scopes: str | None
    revoked_unix_s: float | None
    token_unix_s: float | None
    age_s: float
    idle_s: float


@dataclass(frozen=True)
class AuditRow:
    """A row of `audit`."""

    number: int
    happened_unix_s: float
    event: str
    subject: str
    detail: str

    @property
    def facts(self) -> dict[str, Any]:
        """The detail, by name."""
        return decoded(self.detail)


def decoded(text: str) -> dict[str, Any]:
    """Return the JSON object in a text column."""
    value: dict[str, Any] = json.loads(text)
    return value
