# SPDX-License-Identifier: Apache-2.0
"""Rows of the store with the columns that a test names; all others are those of an empty result."""

from typing import Any

from ringtune.service.store.rows import ReportRow

EMPTY: dict[str, Any] = {
    "number": 1,
    "study_id": "0" * 32,
    "trial_id": "trial",
    "job_id": "job",
    "body_digest": "",
    "token_id": None,
    "run_id": None,
    "phase": "search",
    "config": "{}",
    "config_digest": "",
    "score_bytes_per_s": None,
    "median_step_ms": None,
    "mad_step_ms": None,
    "mean_step_ms": None,
    "steps": 20,
    "valid": True,
    "void_reason": None,
    "speedup": None,
    "ci_low": None,
    "ci_high": None,
    "ci_level": None,
    "pairs": None,
}


def report_row(**columns: Any) -> ReportRow:
    """Return a row of the ledger."""
    return ReportRow(**{**EMPTY, **columns})
