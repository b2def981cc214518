# SPDX-License-Identifier: Apache-2.0
"""Replies of the service, as the REST interface has them: names, units and meanings are those of its schemas."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Config = Mapping[str, bool | int | float | str]
"""A config as the service sent it; the caller's own search space decides what is legal."""


@dataclass(frozen=True)
class StudyKey:
    """The key under which measurements are comparable."""

    hardware: str
    model: str
    layout: tuple[int, ...]
    target: str
    surface_version: int


@dataclass(frozen=True)
class Study:
    """All trials of a key; `search_space` is as in the tuning log."""

    id: str
    key: StudyKey
    model_name: str | None
    hardware_name: str | None
    search_space: Mapping[str, Any]
    trials: int
    jobs: int
    age_s: float


@dataclass(frozen=True)
class StudyPage:
    """Some studies; `next_cursor` is None on the last page."""

    items: tuple[Study, ...]
    next_cursor: str | None = None


@dataclass(frozen=True)
class Evidence:
    """Evidence behind a recommendation; all zero or None without any. `baseline` is what the speed-up is over.

    `reporters` are independent ones, `trusted_jobs` those of them that are jobs. The speed-up is None for a prior.
    """

    trials: int
    jobs: int
    speedup: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    age_s: float | None = None
    baseline: Config | None = None
    reporters: int = 0
    adopted: int = 0
    opposed: int = 0
    trusted_jobs: int = 0
    ci_level: float | None = None


@dataclass(frozen=True)
class Candidate:
    """One of several models that go by the name that was asked for."""

    model_fingerprint: str
    model_name: str | None
    trials: int


@dataclass(frozen=True)
class Recommendation:
    """A config to start with; `source` is `exact`, `nearest` or `default`."""

    config: Config
    source: str
    target: str
    is_prior: bool
    evidence: Evidence
    key: StudyKey | None = None
    distance: float | None = None
    reason: str | None = None
    candidates: tuple[Candidate, ...] = ()
    standing: str = "prior"


@dataclass(frozen=True)
class Lease:
    """The holder of a trial, and the time of the lease; the fencing token goes with each later call."""

    fencing_token: int
    expires_in_s: float


@dataclass(frozen=True)
class Suggestion:
    """A config to try, and the lease under which it is this job's."""

    trial_id: str
    config: Config
    designer: str
    lease: Lease


@dataclass(frozen=True)
class StoredResult:
    """The status of a result: `new`, `same`, `late`, `quarantined`, or not kept: `conflict`, `refused`."""

    trial_id: str
    status: str
    reason: str | None = None


@dataclass(frozen=True)
class StoredBatch:
    """The status of each result, in the order of the request."""

    items: tuple[StoredResult, ...]


@dataclass(frozen=True)
class StoredRun:
    """The status of one run of a log."""

    run_id: str
    study_id: str | None
    new: int
    same: int
    quarantined: int
    reason: str | None = None


@dataclass(frozen=True)
class StoredRuns:
    """The status of each run of a log."""

    runs: tuple[StoredRun, ...]


@dataclass(frozen=True)
class Imported:
    """Rows taken, and rows that were there already."""

    studies: int
    results: int
    same: int


@dataclass(frozen=True)
class Token:
    """A token without its secret; `has_many_jobs`: its jobs count one by one as evidence."""

    id: str
    name: str
    scopes: tuple[str, ...]
    age_s: float
    is_revoked: bool
    has_many_jobs: bool = False


@dataclass(frozen=True)
class DeletedResults:
    """The number of deleted results."""

    results: int


@dataclass(frozen=True)
class CreatedToken:
    """A token and its secret, which is shown this once."""

    id: str
    name: str
    scopes: tuple[str, ...]
    age_s: float
    is_revoked: bool
    secret: str
    has_many_jobs: bool = False


@dataclass(frozen=True)
class TokenPage:
    """Tokens, the newest first."""

    items: tuple[Token, ...]
    next_cursor: str | None = None
