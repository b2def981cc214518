# SPDX-License-Identifier: Apache-2.0
"""The limits that an operator may set; every one has a default that suits one team."""

from dataclasses import dataclass

from ringtune.tuner import DEFAULT_DESIGNER


@dataclass(frozen=True)
class ServiceLimits:
    """Limits.

    Attributes:
        max_speedup: A fraction; a result that claims more is quarantined. The largest that was measured on purpose,
            against a bad baseline, is below 3.
        max_configs_per_job: A job with more in one study does not tune; results beyond are quarantined.
        max_queued_results: Maximum results that wait for their commit; beyond, callers are told to come again.
        max_results_per_commit: Maximum results of one transaction.
        commit_timeout_s: Until a caller is told that the database does not answer.
        max_lease_s: The longest lease.
        max_leases_per_token: Live leases of one token in one study; a job has one at a time.
        max_new_studies_per_token: Studies that one token creates in a day.
        max_rows_per_token: Results, asks and facts of jobs that one token stores in a day; a thirtieth at once.
        max_bytes_per_token: Bytes of them, about; a thirtieth at once.
        max_new_jobs_per_token: Jobs that one token begins in a day.
        designer: Name of the tuner's designer.
        design_workers: Processes that run it; 0 leaves the space-filling configs alone.
        design_timeout_s: Until a worker that does not answer is replaced.
        max_design_samples: The newest of a study that its designer sees.
        queued_suggestions: Number of suggestions computed ahead for each study that is asked for some.
        max_age_s: Older results are removed by retention; None keeps all.
        max_results: More than these are removed by retention, the oldest first; None keeps all.
        max_session_s: Until a browser has to sign in again, whatever it does.
        max_session_idle_s: Until a browser that asks for no page has to sign in again.
        max_sessions_per_token: Browsers signed in with one token; another one ends the session used longest ago.
    """

    max_speedup: float = 4.0
    max_configs_per_job: int = 500
    max_queued_results: int = 20_000
    max_results_per_commit: int = 1_000
    commit_timeout_s: float = 15.0
    max_lease_s: float = 86_400.0
    max_leases_per_token: int = 256
    max_new_studies_per_token: int = 1_000
    max_rows_per_token: int = 150_000
    max_bytes_per_token: int = 256 << 20
    max_new_jobs_per_token: int = 500
    designer: str = DEFAULT_DESIGNER
    design_workers: int = 1
    design_timeout_s: float = 60.0
    max_design_samples: int = 200
    queued_suggestions: int = 3
    max_age_s: float | None = None
    max_results: int | None = None
    max_session_s: float = 12 * 3600.0
    max_session_idle_s: float = 2 * 3600.0
    max_sessions_per_token: int = 100
