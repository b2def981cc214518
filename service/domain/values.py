# SPDX-License-Identifier: Apache-2.0
"""Values that the service's calls take and return: frozen, and checked by their users.

Times are the database's. An age is seconds before the database's now.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from ringtune.service.store.rows import Status
from ringtune.tuner import Config, Phase, StepTimes, VoidReason
from ringtune.tuner.priors.relevance import StudyKey

Json: TypeAlias = Mapping[str, Any]
Scope: TypeAlias = Literal["read", "report", "admin"]

Item = TypeVar("Item")


@dataclass(frozen=True)
class StudyRecord:
    """All trials for one key.

    Attributes:
        study_id: 32 hex digits.
        key: The requested key.
        model_name: For people, as first reported.
        hardware_name: For people, as first reported.
        space: `SearchSpace.to_json()` of the first job. Suggestions are made in it, with the values that it has fixed,
            for jobs that do not say that theirs is another. Results are taken of any config that is legal for the
            target.
        gradient_bytes: Bytes of each tensor of a step, in no order; empty if no job reported them.
        trials: Results that count.
        jobs: Jobs with such a result.
        age_s: Since it was created.
    """

    study_id: str
    key: StudyKey
    model_name: str | None
    hardware_name: str | None
    space: Json
    gradient_bytes: tuple[int, ...]
    trials: int
    jobs: int
    age_s: float


@dataclass(frozen=True)
class StudyFilter:
    """A filter of studies; None takes all."""

    model: str | None = None
    model_name: str | None = None
    hardware: str | None = None
    target: str | None = None


@dataclass(frozen=True)
class Page(Generic[Item]):
    """Some items, and where the next page begins; None after the last."""

    items: tuple[Item, ...]
    next_cursor: str | None


@dataclass(frozen=True)
class LeasedSuggestion:
    """A config to try, under a lease.

    Attributes:
        study_id: The study.
        trial_id: Id that the client chose.
        job_id: The leasing job.
        config: A config that the study's space accepts.
        designer: Name of the designer that suggested it.
        expires_in_s: Seconds left of the lease, by the database's clock.
        fencing_token: Grows with every lease of the trial.
        is_new: False where the same was answered before.
    """

    study_id: str
    trial_id: str
    job_id: str
    config: Config
    designer: str
    expires_in_s: float
    fencing_token: int
    is_new: bool


@dataclass(frozen=True)
class PairedTestResult:
    """The result of a paired test of a config against the job's baseline.

    Attributes:
        speedup: A fraction.
        ci_low: Lower bound of its two-sided interval.
        ci_high: Upper bound.
        pairs: Number of measured pairs.
        ci_level: The interval's level, a fraction; logs from before it was written have 0.95.
    """

    speedup: float
    ci_low: float
    ci_high: float
    pairs: int
    ci_level: float = 0.95


@dataclass(frozen=True)
class ReportedResult:
    """A job's measurement of a config in one window.

    Attributes:
        config: The config.
        job_id: The measuring job.
        score_bytes_per_s: Gradient bytes per step over the mean step time; None where that does not exist.
        step_ms: Summary of the step times; None where there is none.
        steps: Number of steps measured.
        valid: Whether it may be used.
        reason: Reason of a void window, or None.
        adoption: The paired test of this config against the baseline, where the run has one.
        phase: `baseline` marks the job's own baseline: its other results are compared with these.
        run_id: Id of the tuning run, if it is known.
        fencing_token: Fencing token of the lease, if there is one; a result under an older one is late.
        token_id: The token that it came with, by its id; None where the service was open.
    """

    config: Config
    job_id: str
    score_bytes_per_s: float | None
    step_ms: StepTimes | None
    steps: int
    valid: bool = True
    reason: VoidReason | None = None
    adoption: PairedTestResult | None = None
    phase: Phase = Phase.SEARCH
    run_id: str | None = None
    fencing_token: int | None = None
    token_id: str | None = None


@dataclass(frozen=True)
class RecommendationQuery:
    """The query for a start.

    Attributes:
        hardware: Fingerprint.
        world_size: Ranks.
        local_size: Ranks per host; the last host has the rest.
        model: Fingerprint, or None where `model_name` is given.
        model_name: A name, which may be ambiguous.
        target: The target to set.
        surface_version: The engine's.
        step_bytes: Gradient bytes of a step, where known: finds similar tensor sets for a model never seen.
        tensors: Gradients of a step, where known.
    """

    hardware: str | None
    world_size: int
    local_size: int
    model: str | None = None
    model_name: str | None = None
    target: str = "ringtune"
    surface_version: int = 1
    step_bytes: int | None = None
    tensors: int | None = None

    @property
    def layout(self) -> tuple[int, ...]:
        """Ranks per host, sorted."""
        whole, rest = divmod(self.world_size, self.local_size)
        return tuple(sorted([self.local_size] * whole + ([rest] if rest else [])))


@dataclass(frozen=True)
class TokenGrant:
    """A token's permissions; the secret is not here."""

    token_id: str
    name: str
    scopes: frozenset[Scope]
    age_s: float
    is_revoked: bool = False
    has_many_jobs: bool = False


@dataclass(frozen=True)
class Removed:
    """The rows that retention removed."""

    results: int
    trials: int


@dataclass(frozen=True)
class ResultEvent:
    """Something that changed: a result that was stored. Numbers grow with time and are never given twice.

    Attributes:
        number: Ask for the events after it.
        study_id: The study.
        trial_id: The trial.
        job_id: The reporting job.
        status: Its stored status.
        phase: Phase of the tuning run.
        score_bytes_per_s: The measured score, or None.
        age_s: Since it was stored.
    """

    number: int
    study_id: str
    trial_id: str
    job_id: str
    status: Status
    phase: str
    score_bytes_per_s: float | None
    age_s: float


@dataclass(frozen=True)
class Load:
    """The service's load, for metrics.

    Attributes:
        queued_results: Results that wait for their commit.
        live_leases: Trials under a lease.
        queued_suggestions: Ready to be asked for.
        connections: Connections of the pool in use.
        design_workers: Processes that are alive.
        designs: Suggestions computed since the start.
        design_s: Seconds of all designs together.
        page_sessions: Browsers that are signed in.
    """

    queued_results: int
    live_leases: int
    queued_suggestions: int
    connections: int
    design_workers: int
    designs: int
    design_s: float
    page_sessions: int
