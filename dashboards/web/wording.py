# SPDX-License-Identifier: Apache-2.0
"""Figures of studies as people read them; words that the review already has are the review's."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from ringtune.service.domain.jobs import State
from ringtune.service.domain.overview import BestConfig, ListedStudy, MeanGain, ReporterStand, StandName
from ringtune.shared_service.rest_models import Evidence
from ringtune.system.counts import counted
from ringtune.tuner.review import words
from ringtune.tuner.review.surrogate import SpeedUpInterval
from ringtune.tuner.statistics.paired_test import CI_LEVEL

SHORT = 10
MAX_HOSTS_NAMED = 6
DECIDED: tuple[State, ...] = ("adopted", "keeping_default")
UNDECIDED: tuple[State, ...] = ("running", "ended_early", "lost")
DOING: Mapping[State, tuple[str, str]] = MappingProxyType(
    {
        "adopted": ("adopted a config", "adopted a config"),
        "keeping_default": ("keeps the default", "keep the default"),
        "running": ("is running", "are running"),
        "ended_early": ("ended early", "ended early"),
        "lost": ("crashed or was lost", "crashed or were lost"),
    }
)
"""Words for the jobs in each state: for one, and for several."""
STATES: Mapping[State, str] = MappingProxyType(
    {
        "running": "running",
        "adopted": "adopted",
        "keeping_default": "keeping default",
        "ended_early": "ended early",
        "lost": "crashed or lost",
    }
)
PRIOR = "{reason}; no gain is promised: a job with AUTOTUNE=1 tests the config before it adopts it."
"""Detail of a study whose best config is a prior; the reason is the recommendation's own."""
STANDS: Mapping[StandName, str] = MappingProxyType(
    {
        "kept": "tested it and kept the default",
        "faster": "has windows faster than the baseline's beside them, and did not test it",
        "slower": "has windows slower than the baseline's beside them, and did not test it",
        "unclear": "has windows that tell nothing",
    }
)
"""Words for the stands of reporters that did not adopt a config."""
OPEN_JOBS = (
    "Jobs that reported without a token, while this service was open on loopback, are trusted: each counts as an "
    "independent reporter."
)
TRUSTED_JOBS = (
    "Trusted jobs count as independent reporters one by one: they reported without a token, while this service was "
    "open on loopback, or with a token that an operator declared to stand for many jobs."
)
DECLARED_JOBS = "Jobs of tokens that an operator declared to stand for many jobs count one by one, too."
KEPT = "The default is kept"
VERDICTS: Mapping[State, str] = MappingProxyType(
    {
        "adopted": "adopted",
        "keeping_default": "kept the default",
        "ended_early": "ended early",
        "running": "running",
        "lost": "crashed or lost",
    }
)
"""Words for the jobs in each state, in the list of studies."""
SPEED_UP = "speed\u2011up"
""""Speed-up" with a hyphen at which no line ends."""
UNDECIDED_YET = "Nothing is decided yet"
NO_PROMISE = "a prior, not confirmed: no gain is promised"
NOTHING_DECIDED = "No job came to a decision; until one does, the default stays."
AGES = ((86_400.0, "day"), (3_600.0, "hour"), (60.0, "minute"))


@dataclass(frozen=True)
class Finding:
    """The finding of a study, in words.

    Attributes:
        kind: `confirmed`, `prior`, `none`, `open` or `empty`: for its colour, never without words.
        label: The kind in words.
        headline: The verdicts of its jobs, or the speed-up that they confirmed.
        detail: Its evidence, or the next action.
    """

    kind: str
    label: str
    headline: str
    detail: str


def finding_of(study: ListedStudy) -> Finding:
    """Return the finding of a study, by the rule of recommendations. A gain is named where it is confirmed alone."""
    best, decided = study.best, verdicts(study.states, DECIDED)
    if not study.trials and not study.states:
        detail = "A job with this key starts with the default. What it measures appears here as it comes."
        return Finding("empty", "no results", "No results yet", detail)
    if best is not None:
        return _finding_of_a_config(best, decided)
    if study.advice.standing == "default":
        return Finding("none", "keeping default", decided or KEPT, f"{_begun(study.advice.reason)}.")
    return Finding("open", "undecided", verdicts(study.states, UNDECIDED) or UNDECIDED_YET, NOTHING_DECIDED)


def _finding_of_a_config(best: BestConfig, decided: str) -> Finding:
    if not best.is_confirmed:
        return Finding("prior", "prior", decided or UNDECIDED_YET, PRIOR.format(reason=_begun(best.reason)))
    detail = f"{level(best.evidence)} interval {bounds(best.evidence)}. {decided or 'Several jobs tested this config'}."
    return Finding("confirmed", "confirmed", f"{speedup(best.evidence)} {SPEED_UP}", detail)


def told_verdicts(study: ListedStudy) -> list[tuple[State, str]]:
    """Return the verdicts of a study's jobs by state: "1 adopted +75.5 %", "2 kept the default", "1 ended early".

    The gain is that of the jobs' own paired tests, where they adopted one config.
    """
    gain = "" if study.best is None or study.best.tested is None else f" {_unbroken(words.percent(study.best.tested))}"
    return [
        (state, f"{study.states[state]:,} {word}{gain if state == 'adopted' else ''}")
        for state, word in VERDICTS.items()
        if study.states.get(state)
    ]


def mean_gain(gain: MeanGain) -> str:
    """Return the mean gain of jobs: "+3.2 %"; "0.0 %" where none adopted a config."""
    return _unbroken(words.percent(0.0 if gain.interval is None else gain.interval.speedup))


def mean_gain_interval(gain: MeanGain) -> str:
    """Return the interval of a mean gain: "90 % interval +2.1 % to +4.4 %"; empty where none adopted a config."""
    if gain.interval is None or not gain.adopted:
        return ""
    low, high = words.percent(gain.interval.low), words.percent(gain.interval.high)
    return _unbroken(f"{100 * CI_LEVEL:g} % interval {low} to {high}")


def short_mean_gain(gain: MeanGain) -> str:
    """Return a study's mean gain in a list; empty where its verdicts tell: of one job, or of none that adopted."""
    if not gain.adopted or gain.jobs < 2:
        return ""
    return f"mean gain {mean_gain(gain)}, {mean_gain_interval(gain)}, {counted(gain.jobs, 'job')}"


def told_mean_gain(gain: MeanGain) -> str:
    """Return the gain of tuning over the newest verdicts of some studies, as a sentence; empty without a verdict."""
    if not gain.jobs:
        return ""
    mean = f"{mean_gain(gain)} ({mean_gain_interval(gain)})" if gain.adopted else mean_gain(gain)
    parts = [f"{counted(gain.adopted, 'job')} adopted a config"] if gain.adopted else []
    if kept := gain.jobs - gain.adopted:
        parts.append(f"{kept if parts else counted(kept, 'job')} kept the default, which counts as 0")
    return f"Mean gain over {counted(gain.jobs, 'verdict')}, the newest of each study: {mean}. {', '.join(parts)}."


def start_of(study: ListedStudy) -> tuple[str, str]:
    """Return the start of a job with a study's key, as the kind and the words of a badge."""
    if study.best is None:
        return "none", "default"
    return ("confirmed", "confirmed") if study.best.is_confirmed else ("prior", "prior")


def _begun(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


def verdicts(states: Mapping[State, int], which: Sequence[State]) -> str:
    """Return how many jobs are in each of some states: "1 job adopted a config, 2 jobs keep the default"."""
    counts = [(states.get(state, 0), *DOING[state]) for state in which]
    return ", ".join(f"{counted(count, 'job')} {one if count == 1 else many}" for count, one, many in counts if count)


def baseline_of(study: ListedStudy) -> str:
    """Return the word for the baseline of a study's best config: "default", or "baseline" for one that jobs chose."""
    return "default" if study.best is None or study.best.is_over_default else "baseline"


def speedup(evidence: Evidence) -> str:
    """Return a speed-up in percent, "-" where there is none."""
    return "-" if evidence.speedup is None else _unbroken(words.percent(evidence.speedup))


def bounds(evidence: Evidence) -> str:
    """Return the interval of a speed-up, "-" where there is none."""
    if evidence.ci_low is None or evidence.ci_high is None:
        return "-"
    return _unbroken(f"{words.percent(evidence.ci_low)} to {words.percent(evidence.ci_high)}")


def level(evidence: Evidence) -> str:
    """Return the level of a speed-up's interval: "90 %"."""
    return _unbroken(f"{100 * (evidence.ci_level or CI_LEVEL):g} %")


def change_of(evidence: Evidence) -> SpeedUpInterval | None:
    """Return a speed-up with its interval as a change; None where there is none."""
    if evidence.speedup is None or evidence.ci_low is None or evidence.ci_high is None:
        return None
    return SpeedUpInterval(evidence.speedup, evidence.ci_low, evidence.ci_high)


def with_bounds(evidence: Evidence) -> str:
    """Return a speed-up with its interval, "-" where there is none."""
    return (
        "-" if change_of(evidence) is None else f"{speedup(evidence)} ({level(evidence)} interval {bounds(evidence)})"
    )


def said(stand: ReporterStand) -> str:
    """Return one reporter's word on a config; a gain is named for one that its own paired tests adopted."""
    name = short(stand.name) if stand.name == stand.job_id else stand.name
    who = f"{'token' if stand.job_id is None else 'job'} {name}"
    if stand.stand == "adopted":
        gain = _unbroken(words.interval(SpeedUpInterval(stand.speedup, stand.ci_low, stand.ci_high)))
        return f"{who} adopted it: {gain} in {counted(stand.tests, 'paired test')}"
    return f"{who} {STANDS[stand.stand]}"


def telling(stands: Iterable[ReporterStand]) -> list[ReporterStand]:
    """Return the reporters that say anything of a config."""
    return [stand for stand in stands if stand.stand != "unclear"]


def trust(configs: Iterable[BestConfig]) -> list[str]:
    """Return which jobs count one by one, and why: their independence is not checked."""
    jobs = [stand for config in configs for stand in config.stands if stand.job_id is not None]
    found = [OPEN_JOBS] if any(stand.token_id is None for stand in jobs) else []
    return [*found, DECLARED_JOBS] if any(stand.token_id is not None for stand in jobs) else found


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
    """Return people's name of a study's model, or the beginning of its fingerprint."""
    return study.model_name or f"model {short(study.key.model)}"


def hardware_of(study: ListedStudy) -> str:
    """Return people's name of a study's machines, else their CPU, cores and hosts, else the beginning of their key."""
    return study.hardware_name or study.machines or f"machine {short(study.key.hardware)}"


def live_words(states: Mapping[State, int], idle_s: float | None) -> str:
    """Return whether a study's page is live, and for how long it was silent."""
    if states.get("running"):
        return f"Live: {verdicts(states, ('running',))}"
    return "No job is running" if idle_s is None else f"No job is running; last result {age(idle_s)}"


def duration(seconds: float) -> str:
    """Return how long something takes: "3 minutes"."""
    for unit_s, noun in AGES:
        if seconds >= unit_s:
            return counted(int(seconds // unit_s), noun)
    return counted(int(seconds), "second")


def _unbroken(text: str) -> str:
    return text.replace(" %", "\u00a0%")
