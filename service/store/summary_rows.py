# SPDX-License-Identifier: Apache-2.0
"""Rows of the tables that are derived from the ledger, typed; see `rows`."""

import json
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from .rows import decoded

StandName: TypeAlias = Literal["adopted", "kept", "faster", "slower", "unclear"]
UNCLEAR: StandName = "unclear"
"""Stand of a reporter whose windows are no evidence."""


@dataclass(kw_only=True)
class JobSummary:
    """A row of `job_summaries`: sums over the results of a job for a config. It is not frozen: sums grow in place."""

    study_id: str
    job_id: str
    config_digest: str
    trials: int = 0
    samples: int = 0
    log_step_e9: int = 0
    adoptions: int = 0
    log_speedup_e9: int = 0
    variance_e12: int = 0
    newest_unix_s: float = 0.0
    baseline: str | None = None
    token_id: str | None = None
    compared: int = 0
    log_gain_low_e9: int = 0
    log_gain_high_e9: int = 0
    open_windows: str | None = None
    first_unix_s: float = 0.0
    tested_unix_s: float | None = None

    @property
    def baseline_values(self) -> dict[str, Any] | None:
        """The job's own baseline, by parameter, in the row that has it."""
        return None if self.baseline is None else decoded(self.baseline)

    @property
    def open_parts(self) -> tuple[int | None, dict[str, list[int]]]:
        """The job's newest baseline window, and by config digest the windows since then."""
        newest, waiting = (None, {}) if not self.open_windows else json.loads(self.open_windows)
        return newest, waiting


@dataclass(kw_only=True)
class ComparedJob(JobSummary):
    """A row of `job_summaries` beside its job's baseline; see `summaries.compared`."""

    own_baseline: str | None
    has_many_jobs: bool
    all_trials: int
    all_jobs: int
    target: str
    layout: str

    @property
    def ranks_per_host(self) -> tuple[int, ...]:
        """The study's layout, sorted."""
        return tuple(json.loads(self.layout))


@dataclass(frozen=True, kw_only=True)
class ReporterRow:
    """A row of `reporter_summaries`: the stand of a reporter on a config."""

    study_id: str
    config_digest: str
    reporter: str
    token_id: str | None
    jobs: int
    tests: int
    windows: int
    stand: StandName
    speedup: float
    ci_low: float
    ci_high: float
    since_unix_s: float


@dataclass(frozen=True, kw_only=True)
class SpeakingReporter(ReporterRow):
    """A reporter's row beside columns of its config's; see `summaries.speaking`."""

    is_over_default: bool
    is_promising: bool
    is_supported: bool
    is_confirmed: bool
    opposed: int
    beaten: int


@dataclass(frozen=True, kw_only=True)
class NamedReporter(ReporterRow):
    """A reporter's row with its token's name, None without one."""

    token_name: str | None


@dataclass(frozen=True, kw_only=True)
class ConfigSummary:
    """A row of `config_summaries`: the verdict on a config over all its reporters."""

    study_id: str
    config_digest: str
    config: str
    trials: int
    jobs: int
    is_supported: bool
    is_confirmed: bool
    is_promising: bool
    baseline: str | None
    is_over_default: bool
    speedup: float | None
    ci_low: float | None
    ci_high: float | None
    newest_unix_s: float
    reporters: int
    trusted_jobs: int
    adopted: int
    opposed: int
    leaning: int
    beaten: int
    minus_since_s: float

    @property
    def config_values(self) -> dict[str, Any]:
        """The config, by parameter."""
        return decoded(self.config)

    @property
    def baseline_values(self) -> dict[str, Any] | None:
        """The baseline that the speed-up is over, by parameter."""
        return None if self.baseline is None else decoded(self.baseline)


@dataclass(frozen=True, kw_only=True)
class AgedConfig(ConfigSummary):
    """A row of `config_summaries`, with the seconds since its newest result."""

    age_s: float


@dataclass(frozen=True)
class RankChange:
    """New values for the columns of `config_summaries` that depend on a study's other configs."""

    study_id: str
    config_digest: str
    is_promising: bool
    is_supported: bool
    is_confirmed: bool
    beaten: int

    @classmethod
    def of(cls, row: SpeakingReporter) -> "RankChange":
        """Return the values that a config has now."""
        return cls(row.study_id, row.config_digest, row.is_promising, row.is_supported, row.is_confirmed, row.beaten)
