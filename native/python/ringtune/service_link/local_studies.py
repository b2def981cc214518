# SPDX-License-Identifier: Apache-2.0
"""Recommendations from this machine's own finished runs, for users without a service.

The rule is `advice.rule`'s, the same as the service's. Each job of this machine counts by itself, by its first run, as
jobs at a service do that is open on loopback.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ringtune.advice.answers import OwnKey, nearest_answer, own_answer
from ringtune.advice.contest import Contender, Place, places
from ringtune.advice.neighbours import ENGINE_TARGET, adapted, distance
from ringtune.advice.rule import NOT_FASTER, Decision, KeyAdvice, KeyVerdicts, advice_on
from ringtune.advice.votes import Stand, StandName, pooled, tested, votes_of
from ringtune.client.errors import ServiceReplyError
from ringtune.client.replies import read_reply
from ringtune.rest_models import Candidate, Recommendation, StudyKey
from ringtune.rest_models.fields import MAX_NAME
from ringtune.tuner import Config, Phase, default_config
from ringtune.tuner.logs.reader import RunLog
from ringtune.tuner.logs.records import Record, ResultRecord, RunRecord

from .results import Results, first_runs

SHORT = 10
"""Digits by which a machine without a name goes."""


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
class _FinishedRun:
    """A job's first run that came to a verdict, with its key and its results as the service counts them."""

    run: RunRecord
    result: ResultRecord
    key: StudyKey
    results: Sequence[Mapping[str, Any]]

    @property
    def reporter(self) -> str:
        """The run's name among the reporters: each job of this machine counts by itself."""
        return self.run.run_id

    @property
    def decided_unix_s(self) -> float:
        """The time of its verdict."""
        return self.run.unix_time_s + self.result.t_s

    @property
    def test(self) -> Mapping[str, Any] | None:
        """The result of its paired test, None without one."""
        return next((item for item in self.results if item.get("adoption")), None)

    @property
    def baseline(self) -> str:
        """The baseline as text, to compare it."""
        return json.dumps(self.run.baseline, sort_keys=True)

    @property
    def is_over_default(self) -> bool:
        """True where a speed-up is one over the default; for other targets than the engine any baseline is."""
        return self.key.target != ENGINE_TARGET or self.run.baseline == default_config(self.key.layout)


@dataclass(frozen=True)
class _LocalConfig:
    """A config with the verdict on it over all runs of a key; see `advice.rule.Judged`."""

    config_values: Mapping[str, Any]
    baseline_values: Mapping[str, Any]
    trials: int
    jobs: int
    reporters: int
    trusted_jobs: int
    adopted: int
    opposed: int
    is_over_default: bool
    is_supported: bool
    is_confirmed: bool
    speedup: float
    ci_low: float
    ci_high: float
    newest_unix_s: float
    place: tuple[bool, bool, int, int, float, str]
    adopters: frozenset[str]


@dataclass(frozen=True)
class _OwnRuns:
    """The runs of one key, and the advice on it."""

    key: StudyKey
    runs: Sequence[_FinishedRun]
    best: _LocalConfig | None
    advice: KeyAdvice

    @property
    def newest_unix_s(self) -> float:
        """The time of the newest verdict."""
        return max(item.decided_unix_s for item in self.runs)

    @property
    def machine(self) -> str:
        """What people call the machines, else where their fingerprint begins."""
        names = (item.run.hardware_name for item in self.runs)
        return next(filter(None, names), f"machine {self.key.hardware[:SHORT]}")


def recommend_from(runs: Sequence[RunLog], query: StudyQuery, now_unix_s: float) -> Recommendation:
    """Return what finished runs recommend; without one that fits, the default.

    Args:
        runs: Runs of this machine, as `StudyStore.runs` returns them.
        query: The query.
        now_unix_s: The time, for the age of the evidence.
    """
    finished = [item for item in map(_finished, first_runs(runs)) if item is not None]
    asked = [item for item in finished if _is_asked(item, query)]
    if not asked:
        return _default(query, "no finished run here has this model")
    if len({item.key.model for item in asked}) > 1:
        return _ambiguous(asked, query)
    keys: dict[tuple[str, tuple[int, ...], int], list[_FinishedRun]] = {}
    for item in asked:
        keys.setdefault((item.key.hardware, tuple(item.key.layout), item.key.surface_version), []).append(item)
    known = [_own_runs(own) for own in keys.values()]
    return _exact(known, query, now_unix_s) or _nearest(known, query, now_unix_s) or _default(query, NOT_FASTER)


def _finished(log: RunLog) -> _FinishedRun | None:
    """Return a run that came to a verdict on a key, None for any other."""
    if log.run is None or log.result is None:
        return None
    try:
        key = read_reply(StudyKey, log.run.key)
    except ServiceReplyError:
        return None
    if not sum(key.layout):
        return None
    results = Results(log.run)
    records: list[Record] = [*log.samples, *([] if log.adoption is None else [log.adoption])]
    told = [item for item in map(results.take, records) if item is not None]
    counting = [item for item in told if item["valid"] and item["phase"] != Phase.WARMUP]
    return _FinishedRun(log.run, log.result, key, counting)


def _is_asked(item: _FinishedRun, query: StudyQuery) -> bool:
    """Return whether a study has the model, the hardware and the target of the query."""
    is_model = query.model in {item.key.model, item.run.model_name}
    return is_model and query.hardware in {None, item.key.hardware} and item.key.target == query.target


def _own_runs(runs: Sequence[_FinishedRun]) -> _OwnRuns:
    """Return what the rule says of the runs of one key."""
    configs = [item for item in _configs(runs) if item.adopted]
    best = max(configs, key=lambda item: item.place, default=None)
    verdicts = KeyVerdicts.of(map(_decision, runs))
    return _OwnRuns(runs[0].key, runs, best, advice_on(best, best.adopters if best else (), verdicts))


def _decision(item: _FinishedRun) -> Decision:
    return Decision(item.reporter, item.decided_unix_s, item.result.adopted, is_trusted_job=True)


def _configs(runs: Sequence[_FinishedRun]) -> Sequence[_LocalConfig]:
    """Return the configs that the runs tested, those whose votes hold; of several baselines the one of most runs."""
    tested: dict[str, dict[str, list[_FinishedRun]]] = {}
    for item in runs:
        if item.test is not None:
            config = json.dumps(item.test["config"], sort_keys=True)
            tested.setdefault(config, {}).setdefault(item.baseline, []).append(item)
    chosen = {
        config: max(groups.items(), key=lambda group: (group[1][0].is_over_default, len(group[1]), group[0]))[1]
        for config, groups in tested.items()
    }
    stands = {config: [_stand(item) for item in group] for config, group in chosen.items()}
    contenders = [
        Contender(
            name=config,
            is_over_default=chosen[config][0].is_over_default,
            adopted={stand.reporter: stand.estimate.low for stand in own if stand.name == "adopted"},
            kept=frozenset(stand.reporter for stand in own if stand.name == "kept"),
            faster={},
            slower=0,
        )
        for config, own in stands.items()
    ]
    found = places(contenders)
    return [
        _judged(config, runs, chosen[config], stands[config], found[config])
        for config in chosen
        if found[config].is_promising
    ]


def _stand(item: _FinishedRun) -> Stand:
    """Return a run's word on the config that it tested."""
    test = (item.test or {})["adoption"]
    estimate = pooled([tested(test["speedup"], test["ci_low"], test["ci_high"], test["ci_level"])])
    name: StandName = "adopted" if estimate.low > 0.0 else "kept"
    return Stand(item.reporter, None, 1, 1, 0, name, estimate, item.decided_unix_s)


def _judged(
    config: str, runs: Sequence[_FinishedRun], group: Sequence[_FinishedRun], stands: Sequence[Stand], place: Place
) -> _LocalConfig:
    """Return a config's votes and its place.

    Args:
        config: The config as text.
        runs: All runs of the key: those with this baseline have results of the config.
        group: Those that tested it.
        stands: What these say.
        place: Its place among the configs of the key.
    """
    values, votes = json.loads(config), votes_of(stands)
    alike = [item for item in runs if item.baseline == group[0].baseline]
    told = {item.reporter: sum(result["config"] == values for result in item.results) for item in alike}
    measured = [item for item in alike if told[item.reporter]]
    interval = (votes.estimate or stands[0].estimate).interval
    is_over_default = group[0].is_over_default
    order = (is_over_default, place.is_supported, place.beaten, votes.adopted, -votes.since_unix_s, config)
    return _LocalConfig(
        config_values=values,
        baseline_values=dict(group[0].run.baseline),
        trials=sum(told.values()),
        jobs=len(measured),
        reporters=len(stands),
        trusted_jobs=len(stands),
        adopted=votes.adopted,
        opposed=votes.opposed,
        is_over_default=is_over_default,
        is_supported=place.is_supported,
        is_confirmed=place.is_confirmed,
        speedup=interval.speedup,
        ci_low=interval.low,
        ci_high=interval.high,
        newest_unix_s=max(item.decided_unix_s for item in measured),
        place=order,
        adopters=frozenset(stand.reporter for stand in stands if stand.name == "adopted"),
    )


def _exact(known: Sequence[_OwnRuns], query: StudyQuery, now_unix_s: float) -> Recommendation | None:
    """Return what the verdicts of the asked key say, None without any; of several machines the answer's is named."""
    here = [item for item in known if tuple(item.key.layout) == query.layout and item.advice.standing is not None]
    if not here:
        return None
    own = max(here, key=lambda item: item.advice.precedence)
    age_s = now_unix_s - (own.best.newest_unix_s if own.advice.best and own.best else own.newest_unix_s)
    found = OwnKey(own.key, own.advice, own.machine, sum(len(item.results) for item in own.runs), age_s)
    return own_answer(found, _default_config(query), others=None if query.hardware else len(here) - 1)


def _nearest(known: Sequence[_OwnRuns], query: StudyQuery, now_unix_s: float) -> Recommendation | None:
    """Return what the nearest layout with an upheld adoption says, None without one."""
    places_of = [(_place(query, item.key), item) for item in known if item.advice.best is not None]
    near = [
        (item.advice.standing != "confirmed", distance(at, item.key, None, None), at, item) for at, item in places_of
    ]
    for _, far, asked, own in sorted(near, key=lambda row: row[:2]):
        best = own.best
        if best is None or not math.isfinite(far):
            continue
        config = adapted(Config(best.config_values), query.layout, query.target)
        if query.target != ENGINE_TARGET or config != default_config(query.layout):
            age_s = now_unix_s - best.newest_unix_s
            return nearest_answer(config, best, age_s, asked=asked, key=own.key, distance=far)
    return None


def _place(query: StudyQuery, key: StudyKey) -> StudyKey:
    """Return the key that is asked for, as far as another key's machines and model match."""
    return key.model_copy(update={"layout": list(query.layout)})


def model_names(runs: Sequence[RunLog]) -> tuple[str, ...]:
    """Return what the models of finished runs are called, sorted; a model without a name goes by its fingerprint."""
    names = {log.run.model_name or str(log.run.key.get("model")) for log in runs if log.run is not None and log.result}
    return tuple(sorted(names))


def _ambiguous(found: Sequence[_FinishedRun], query: StudyQuery) -> Recommendation:
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
