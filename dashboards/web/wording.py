# SPDX-License-Identifier: Apache-2.0
"""Figures of studies as people read them; what the review already has words for is the review's."""

from collections.abc import Sequence
from dataclasses import dataclass

from ringtune.service.domain.overview import BestConfig, ListedStudy
from ringtune.service.domain.values import Evidence
from ringtune.tuner.review import words
from ringtune.tuner.review.surrogate import Change

SHORT = 10
MAX_HOSTS_NAMED = 6
AGES = ((86_400.0, "day"), (3_600.0, "hour"), (60.0, "minute"))


@dataclass(frozen=True)
class Finding:
    """What a study found, in words.

    Attributes:
        kind: `confirmed`, `promising`, `none` or `empty`: for its colour, never without words.
        label: The kind in words.
        headline: The speed-up, or that there is none.
        detail: What it rests on, or what to do.
    """

    kind: str
    label: str
    headline: str
    detail: str


def finding_of(study: ListedStudy) -> Finding:
    """Return what a study found."""
    best = study.best
    if not study.trials:
        detail = "A job with this key starts with the default. What it measures appears here as it comes."
        return Finding("empty", "no results", "No results yet", detail)
    if best is None or best.evidence.speedup is None:
        detail = f"{counted(study.trials, 'result')} of {counted(study.jobs, 'job')}, and nothing beats the baseline."
        return Finding("none", "default", "Keep the default", detail)
    return finding_of_config(best)


def finding_of_config(best: BestConfig) -> Finding:
    """Return what is known of a config that promises something."""
    rests_on = f"{counted(best.evidence.trials, 'result')} of {counted(best.evidence.jobs, 'job')}"
    headline = f"{speedup(best.evidence)} speed-up"
    if best.is_confirmed:
        detail = f"95 % interval {bounds(best.evidence)}. {rests_on} measured this config; its lower bound decides."
        return Finding("confirmed", "confirmed", headline, detail)
    detail = (
        f"95 % interval {bounds(best.evidence)}. {rests_on}. Not confirmed ({_open_question(best.evidence)}): a job "
        "tests it first."
    )
    return Finding("promising", "promising", headline, detail)


def _open_question(evidence: Evidence) -> str:
    """Return why a config that promises something is not confirmed."""
    if evidence.jobs <= 1:
        return "one job measured it"
    if evidence.ci_low is not None and evidence.ci_low <= 0.0:
        return "its interval reaches below zero"
    return "what it was compared with is not the default"


def speedup(evidence: Evidence) -> str:
    """Return a speed-up in percent, "-" where there is none."""
    return "-" if evidence.speedup is None else _unbroken(words.percent(evidence.speedup))


def bounds(evidence: Evidence) -> str:
    """Return the interval of a speed-up, "-" where there is none."""
    if evidence.ci_low is None or evidence.ci_high is None:
        return "-"
    return _unbroken(f"{words.percent(evidence.ci_low)} to {words.percent(evidence.ci_high)}")


def change_of(evidence: Evidence) -> Change | None:
    """Return a speed-up with its interval as a change; None where there is none."""
    if evidence.speedup is None or evidence.ci_low is None or evidence.ci_high is None:
        return None
    return Change(evidence.speedup, evidence.ci_low, evidence.ci_high)


def with_bounds(evidence: Evidence) -> str:
    """Return a speed-up with its interval, "-" where there is none."""
    change = change_of(evidence)
    return "-" if change is None else words.interval(change)


def counted(number: int, noun: str) -> str:
    """Return a number of things: "1 job", "1,200 results"."""
    plural = {"study": "studies"}.get(noun, f"{noun}s")
    return f"{number:,} {noun if number == 1 else plural}"


def age(seconds: float | None) -> str:
    """Return how long ago something was: "just now", "3 minutes ago"; "-" where it never was."""
    if seconds is None:
        return "-"
    for unit_s, noun in AGES:
        if seconds >= unit_s:
            return f"{counted(int(seconds // unit_s), noun)} ago"
    return "just now" if seconds < 10 else f"{int(seconds)} seconds ago"


def layout(ranks_per_host: Sequence[int]) -> str:
    """Return a layout: "8 ranks on 2 hosts"."""
    return f"{counted(sum(ranks_per_host), 'rank')} on {counted(len(ranks_per_host), 'host')}"


def ranks_of_hosts(ranks_per_host: Sequence[int]) -> str:
    """Return the ranks of each host: "4 + 4"."""
    shown = " + ".join(map(str, ranks_per_host[:MAX_HOSTS_NAMED]))
    return shown if len(ranks_per_host) <= MAX_HOSTS_NAMED else f"{shown} + …"


def short(fingerprint: str) -> str:
    """Return where a long id or fingerprint begins."""
    return fingerprint if len(fingerprint) <= SHORT + 2 else f"{fingerprint[:SHORT]}…"


def milliseconds(value: float | None) -> str:
    """Return a step time, "-" where there is none."""
    return "-" if value is None else f"{value:,.2f} ms"


def size(value: int | None) -> str:
    """Return a number of bytes in the unit that suits it."""
    if value is None:
        return "not told"
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= factor:
            return f"{value / factor:,.1f} {unit}"
    return f"{value} B"


def name_of(study: ListedStudy) -> str:
    """Return what people call a study's model, or where its fingerprint begins."""
    return study.model_name or f"model {short(study.key.model)}"


def hardware_of(study: ListedStudy) -> str:
    """Return what people call a study's hardware, or where its fingerprint begins."""
    return study.hardware_name or f"hardware {short(study.key.hardware)}"


def _unbroken(text: str) -> str:
    return text.replace(" %", "\u00a0%")
