# SPDX-License-Identifier: Apache-2.0
"""Evidence behind an answer in one line, for the command and for a job's log."""

from ringtune.shared_service.rest_models import Evidence, Recommendation
from ringtune.system.counts import age_in_days, counted
from ringtune.tuner import default_config
from ringtune.tuner.logs.records import OLD_CI_LEVEL

from .answers import is_default
from .neighbours import ENGINE_TARGET


def evidence_text(offer: Recommendation) -> str:
    """Return the evidence for a recommendation in one line, the target first; a gain only where it is confirmed."""
    evidence = offer.evidence
    if is_default(offer):
        return ", ".join(["the default", *_counts(evidence)]) if evidence.trials else "no evidence: the default"
    parts = [f"measured on {offer.target}", offer.source, offer.standing, *_counts(evidence)]
    gain = _gain_text(offer)
    return ", ".join([*parts, gain] if gain else parts)


def _counts(evidence: Evidence) -> list[str]:
    """Return how much was measured, and when last."""
    of_jobs = "" if not evidence.jobs else f" of {counted(evidence.jobs, 'job')}"
    results = [counted(evidence.trials, "result") + of_jobs] if evidence.trials else []
    return results if evidence.age_s is None else [*results, age_in_days(evidence.age_s)]


def _gain_text(offer: Recommendation) -> str:
    """Return the gain of a confirmed config with its interval; empty for any other."""
    evidence = offer.evidence
    figures = [100 * figure for figure in (evidence.speedup, evidence.ci_low, evidence.ci_high) if figure is not None]
    if offer.standing != "confirmed" or len(figures) < 3:
        return ""
    level = 100 * (evidence.ci_level or OLD_CI_LEVEL)
    interval = f"{level:.0f} % interval {figures[1]:+.1f} % to {figures[2]:+.1f} %"
    return f"{figures[0]:+.1f} % ({interval}){_baseline_text(offer)}"


def _baseline_text(offer: Recommendation) -> str:
    """Return a remark where the speed-up's baseline is not the engine's default; `--format json` has that baseline."""
    baseline = offer.evidence.baseline
    if offer.target != ENGINE_TARGET or baseline is None:
        return ""
    is_other = baseline != (default_config() if offer.key is None else default_config(offer.key.layout))
    return " over another baseline than the default" if is_other else ""
