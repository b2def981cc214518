# SPDX-License-Identifier: Apache-2.0
"""Recommendations from this machine's own finished runs, for users without a service.

The same layout first, else the nearest by number of ranks; among runs of one layout those that began with the default,
and of them the config whose speed-up has the best lower bound. A job counts once, by its first run. Evidence of one
machine is a prior, as at the service.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ringtune.client.errors import ServiceReplyError
from ringtune.client.replies import read_reply
from ringtune.rest_models import Candidate, Evidence, Recommendation, StudyKey
from ringtune.rest_models.fields import MAX_NAME
from ringtune.tuner import default_config
from ringtune.tuner.logs.reader import RunLog
from ringtune.tuner.logs.records import AdoptionRecord, ResultRecord, RunRecord

from .results import first_runs

ENGINE_TARGET = "ringtune"
MIN_JOBS = 2
"""A config that fewer runs adopted is a prior."""


@dataclass(frozen=True)
class StudyQuery:
    """Query for a recommendation.

    Attributes:
        model: Its name or its fingerprint.
        world_size: Number of ranks.
        local_size: Ranks on each host; the last has the rest.
        hardware: Its fingerprint, or None for any.
        target: The engine to be set.
    """

    model: str
    world_size: int
    local_size: int
    hardware: str | None = None
    target: str = ENGINE_TARGET

    @property
    def layout(self) -> tuple[int, ...]:
        """Ranks per host, sorted."""
        whole, rest = divmod(self.world_size, self.local_size)
        return tuple(sorted([self.local_size] * whole + ([rest] if rest else [])))


@dataclass(frozen=True)
class _AnsweringRun:
    """A run that can answer; `distance` is in doublings of the number of ranks, 0 for the same layout."""

    run: RunRecord
    result: ResultRecord
    adoption: AdoptionRecord | None
    key: StudyKey
    distance: float
    trials: int

    @property
    def is_over_default(self) -> bool:
        """True where the run's speed-up is one over the default; for other targets than the engine any baseline is."""
        return self.key.target != ENGINE_TARGET or self.run.baseline == default_config(self.key.layout)

    @property
    def place(self) -> tuple[float, bool, float, float]:
        """Sort key, the lowest being the best: the nearest, those over the default, the best bound, the newest."""
        low = None if self.adoption is None else self.adoption.ci_low
        return self.distance, not self.is_over_default, -(low or 0.0), -self.run.unix_time_s

    def agrees(self, other: "_AnsweringRun") -> bool:
        """Tell whether another run ended with the same config, beside the same baseline, at the same distance."""
        ours = (self.distance, self.result.config, self.run.baseline)
        return ours == (other.distance, other.result.config, other.run.baseline)


def recommend_from(runs: Sequence[RunLog], query: StudyQuery, now_unix_s: float) -> Recommendation:
    """Return what finished runs recommend; without one that fits, the default.

    Args:
        runs: Runs of this machine, as `StudyStore.runs` returns them.
        query: The query.
        now_unix_s: The time, for the age of the evidence.
    """
    found = [finding for finding in (_finding(log, query) for log in first_runs(runs)) if finding is not None]
    if not found:
        return _default(query, "no finished run here has this model")
    if len({finding.key.model for finding in found}) > 1:
        return _ambiguous(found, query)
    best = min(found, key=lambda finding: finding.place)
    return _recommendation(best, [item for item in found if item.agrees(best)], query, now_unix_s)


def _finding(log: RunLog, query: StudyQuery) -> _AnsweringRun | None:
    """Return a run that answers the query, None where it does not."""
    if log.run is None or log.result is None:
        return None
    try:
        key = read_reply(StudyKey, log.run.key)
    except ServiceReplyError:
        return None
    if not _is_asked(key, log.run.model_name, query):
        return None
    distance = 0.5 + abs(math.log2(sum(key.layout) / query.world_size))
    return _AnsweringRun(
        run=log.run,
        result=log.result,
        adoption=log.adoption if log.result.adopted else None,
        key=key,
        distance=0.0 if tuple(key.layout) == query.layout else distance,
        trials=len({sample.trial_id for sample in log.samples}),
    )


def _is_asked(key: StudyKey, model_name: str | None, query: StudyQuery) -> bool:
    """Return whether a study has the model, the hardware and the target of the query."""
    is_model = query.model in {key.model, model_name}
    is_hardware = query.hardware in {None, key.hardware}
    return is_model and is_hardware and key.target == query.target and sum(key.layout) > 0


def _recommendation(
    best: _AnsweringRun, agreeing: Sequence[_AnsweringRun], query: StudyQuery, now_unix_s: float
) -> Recommendation:
    """Return the best finding's config; `agreeing` are the runs that ended with it."""
    newest_unix_s = max(finding.run.unix_time_s for finding in agreeing)
    evidence = Evidence(
        trials=sum(finding.trials for finding in agreeing),
        jobs=len(agreeing),
        age_s=max(now_unix_s - newest_unix_s, 0.0),
    )
    reason = "this machine's own runs kept the default"
    test = best.adoption
    if test is not None:
        figures = {"speedup": test.speedup, "ci_low": test.ci_low, "ci_high": test.ci_high, "ci_level": test.ci_level}
        evidence = evidence.model_copy(update={**figures, "baseline": dict(best.run.baseline)})
        reason = "from this machine's own runs"
    if best.distance > 0:
        there, here = sum(best.key.layout), query.world_size
        reason = f"no run here with {here} ranks; nearest: {there} ranks; no gain is promised here: test it first"
    is_prior = best.distance > 0 or len(agreeing) < MIN_JOBS or not best.is_over_default
    return Recommendation(
        config=dict(best.result.config),
        source="exact" if best.distance == 0 else "nearest",
        target=best.key.target,
        is_prior=is_prior,
        standing="prior" if is_prior else "confirmed",
        evidence=evidence,
        key=best.key,
        distance=best.distance,
        reason=reason,
    )


def model_names(runs: Sequence[RunLog]) -> tuple[str, ...]:
    """Return what the models of finished runs are called, sorted; a model without a name goes by its fingerprint."""
    names = {log.run.model_name or str(log.run.key.get("model")) for log in runs if log.run is not None and log.result}
    return tuple(sorted(names))


def _ambiguous(found: Sequence[_AnsweringRun], query: StudyQuery) -> Recommendation:
    counts: dict[str, int] = {}
    for finding in found:
        counts[finding.key.model] = counts.get(finding.key.model, 0) + finding.trials
    name = query.model[:MAX_NAME] if query.model.isprintable() else None
    candidates = tuple(
        Candidate(model_fingerprint=model, model_name=name, trials=trials) for model, trials in sorted(counts.items())
    )
    return _default(query, f"{len(counts)} models go by the name {query.model!r}", candidates)


def _default(query: StudyQuery, reason: str, candidates: tuple[Candidate, ...] = ()) -> Recommendation:
    config = default_config(query.layout).to_json() if query.target == ENGINE_TARGET else {}
    return Recommendation.of_default(config, query.target, reason, candidates)
