# SPDX-License-Identifier: Apache-2.0
"""Recommendations from this machine's own finished runs, for users without a service.

The rule is `advice.rule`'s, the same as the service's. Each job of this machine counts by itself, by its first run, as
jobs at a service do that is open on loopback.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from ringtune.shared_service.advice.answers import OwnKey, nearest_answer, own_answer
from ringtune.shared_service.advice.neighbours import ENGINE_TARGET, adapted
from ringtune.shared_service.advice.rule import NOT_FASTER
from ringtune.shared_service.rest_models import Candidate, Recommendation
from ringtune.shared_service.rest_models.fields import MAX_NAME
from ringtune.tuner import Config, default_config
from ringtune.tuner.logs.reader import RunLog
from ringtune.tuner.priors.relevance import MAX_DISTANCE, StudyKey, distance

from .local_verdicts import FinishedRun, OwnRuns, finished_run, own_runs
from .results import first_runs


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


def recommend_from(runs: Sequence[RunLog], query: StudyQuery, now_unix_s: float) -> Recommendation:
    """Return the recommendation of finished runs; without one that fits, the default.

    Args:
        runs: Runs of this machine, as `StudyStore.runs` returns them.
        query: The query.
        now_unix_s: The time, for the age of the evidence.
    """
    finished = map(finished_run, first_runs(runs))
    matching = [item for item in finished if item is not None and _is_asked(item, query)]
    if not matching:
        return _default(query, "no finished run here has this model")
    if len({item.key.model for item in matching}) > 1:
        return _ambiguous(matching, query)
    known = [own_runs(list(own)) for _, own in groupby(sorted(matching, key=_key_of), _key_of)]
    return _exact(known, query, now_unix_s) or _nearest(known, query, now_unix_s) or _default(query, NOT_FASTER)


def _key_of(item: FinishedRun) -> tuple[str, tuple[int, ...], int]:
    return item.key.hardware, item.key.layout, item.key.surface_version


def _is_asked(item: FinishedRun, query: StudyQuery) -> bool:
    """Return whether a study has the model and the target of the query."""
    return query.model in {item.key.model, item.run.model_name} and item.key.target == query.target


def _key(query: StudyQuery, found: StudyKey) -> StudyKey:
    """Return the key that is asked for, as far as the query has it, and a found study's elsewhere."""
    return replace(found, layout=query.layout, hardware=query.hardware or found.hardware)


def _exact(known: Sequence[OwnRuns], query: StudyQuery, now_unix_s: float) -> Recommendation | None:
    """Return the answer of the query's own key, None without any; of several machines the answer's is named."""
    here = [item for item in known if item.key == _key(query, item.key) and item.advice.standing is not None]
    if not here:
        return None
    own = max(here, key=lambda item: item.advice.precedence)
    age_s = now_unix_s - (own.best.newest_unix_s if own.advice.best and own.best else own.newest_unix_s)
    found = OwnKey(own.key, own.advice, own.machine, sum(len(item.results) for item in own.runs), age_s)
    return own_answer(found, _default_config(query), others=None if query.hardware else len(here) - 1)


def _nearest(known: Sequence[OwnRuns], query: StudyQuery, now_unix_s: float) -> Recommendation | None:
    """Return the answer of the nearest layout with an upheld adoption, None without one."""
    wanted_keys = [(_key(query, item.key), item) for item in known if item.advice.best is not None]
    near = [(item.advice.standing != "confirmed", distance(key, item.key), key, item) for key, item in wanted_keys]
    for _, far, wanted, own in sorted(near, key=lambda row: row[:2]):
        best = own.best
        if best is None or far > MAX_DISTANCE:
            continue
        config = adapted(Config(best.config_values), query.layout, query.target)
        if query.target != ENGINE_TARGET or config != default_config(query.layout):
            age_s = now_unix_s - best.newest_unix_s
            return nearest_answer(config, best, age_s, asked=wanted, key=own.key, distance=far)
    return None


def model_names(runs: Sequence[RunLog]) -> tuple[str, ...]:
    """Return the names of the models of finished runs, sorted; a model without a name goes by its fingerprint."""
    names = {log.run.model_name or str(log.run.key.get("model")) for log in runs if log.run is not None and log.result}
    return tuple(sorted(names))


def _ambiguous(found: Sequence[FinishedRun], query: StudyQuery) -> Recommendation:
    counts: dict[str, int] = {}
    for item in found:
        counts[item.key.model] = counts.get(item.key.model, 0) + len(item.results)
    name = query.model[:MAX_NAME] if query.model.isprintable() else None
    candidates = tuple(
        Candidate(model_fingerprint=model, model_name=name, trials=trials) for model, trials in sorted(counts.items())
    )
    return _default(query, f"{len(counts)} models go by the name {query.model!r}", candidates)


def _default(query: StudyQuery, reason: str, candidates: tuple[Candidate, ...] = ()) -> Recommendation:
    return Recommendation.of_default(_default_config(query), query.target, reason, candidates)


def _default_config(query: StudyQuery) -> Mapping[str, Any]:
    return default_config(query.layout).to_json() if query.target == ENGINE_TARGET else {}
