# SPDX-License-Identifier: Apache-2.0
"""Evidence of a config as it is shown: a gain only where it is confirmed, who stands behind it, and in words why."""

from ringtune.rest_models import Evidence
from ringtune.service.store.summary_rows import ConfigSummary

from .evidence import CI_LEVEL, MIN_REPORTERS


def evidence_of(row: ConfigSummary, age_s: float, *, is_here: bool = True) -> Evidence:
    """Return what a config rests on.

    Args:
        row: The config's.
        age_s: Since its newest result.
        is_here: Whether it was measured on the key that was asked for; of one from elsewhere no gain is promised.
    """
    has_gain = row.is_confirmed and is_here
    return Evidence(
        trials=row.trials,
        jobs=row.jobs,
        reporters=row.reporters,
        adopted=row.adopted,
        opposed=row.opposed,
        trusted_jobs=row.trusted_jobs,
        speedup=row.speedup if has_gain else None,
        ci_low=row.ci_low if has_gain else None,
        ci_high=row.ci_high if has_gain else None,
        ci_level=CI_LEVEL if has_gain else None,
        age_s=max(age_s, 0.0),
        baseline=row.baseline_values,
    )


def reason_of(row: ConfigSummary) -> str:
    """Return in words why a config is confirmed, or a prior."""
    by = _counted_reporters(row)
    if row.is_confirmed:
        return f"confirmed: adopted in paired tests of {by}"
    if not row.adopted:
        return "prior: windows on this key were faster than those of the baseline beside them, and nobody tested it"
    if not row.is_over_default:
        over = "over another baseline than the default"
        return f"prior: adopted in paired tests of {by}, {over}; a gain is confirmed over the default alone"
    if row.is_supported:
        return f"prior: adopted in paired tests of {by}, as another config was: the one that came first is named"
    opposed = f", and {counted(row.opposed, 'reporter')} found no gain" if row.opposed else ""
    return f"prior: adopted in paired tests of {by}{opposed}; confirmed takes {MIN_REPORTERS} that agree"


def _counted_reporters(row: ConfigSummary) -> str:
    """Return in words how many reporters adopted a config, and in what sense they are independent."""
    count, trusted = row.adopted, row.trusted_jobs
    if not trusted:
        return counted(count, "token")
    if trusted == row.reporters:
        return f"{counted(count, 'job')}, which count one by one"
    return f"{counted(count, 'reporter')}, tokens and jobs that count one by one"


def counted(count: int, what: str) -> str:
    """Return a number with its noun: `1 job`, `2 jobs`."""
    return f"{count} {what}{'' if count == 1 else 's'}"
