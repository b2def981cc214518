# SPDX-License-Identifier: Apache-2.0
"""Verdicts of this machine's finished runs: their word on the configs that they tested, and the advice on each key."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from ringtune.client.errors import ServiceReplyError
from ringtune.client.replies import read_reply
from ringtune.shared_service import rest_models
from ringtune.shared_service.advice.contest import Contender, Place, places
from ringtune.shared_service.advice.neighbours import ENGINE_TARGET
from ringtune.shared_service.advice.rule import Decision, KeyAdvice, KeyVerdicts, advice_on
from ringtune.shared_service.advice.votes import Stand, StandName, pooled, tested, votes_of
from ringtune.tuner import Phase, default_config
from ringtune.tuner.logs.reader import RunLog
from ringtune.tuner.logs.records import Record, ResultRecord, RunRecord
from ringtune.tuner.priors.relevance import StudyKey

from .results import Results

SHORT = 10
"""Digits by which a machine without a name goes."""


@dataclass(frozen=True)
class FinishedRun:
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
    def tested_config(self) -> str:
        """The config of its paired test as text; empty without one."""
        return "" if self.test is None else json.dumps(self.test["config"], sort_keys=True)

    def results_of(self, config: Mapping[str, Any]) -> int:
        """Return how many results of a config it has."""
        return sum(result["config"] == config for result in self.results)

    @property
    def baseline(self) -> str:
        """The baseline as text, to compare it."""
        return json.dumps(self.run.baseline, sort_keys=True)

    @property
    def is_over_default(self) -> bool:
        """True where a speed-up is one over the default; for other targets than the engine any baseline is."""
        return self.key.target != ENGINE_TARGET or self.run.baseline == default_config(self.key.layout)


@dataclass(frozen=True)
class LocalConfig:
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
class OwnRuns:
    """The runs of one key, and the advice on it."""

    key: StudyKey
    runs: Sequence[FinishedRun]
    best: LocalConfig | None
    advice: KeyAdvice

    @property
    def newest_unix_s(self) -> float:
        """The time of the newest verdict."""
        return max(item.decided_unix_s for item in self.runs)

    @property
    def machine(self) -> str:
        """Name of the machines, else the beginning of their fingerprint."""
        names = (item.run.hardware_name for item in self.runs)
        return next(filter(None, names), f"machine {self.key.hardware[:SHORT]}")


def finished_run(log: RunLog) -> FinishedRun | None:
    """Return a run that came to a verdict on a key, None for any other."""
    if log.run is None or log.result is None:
        return None
    try:
        read_reply(rest_models.StudyKey, log.run.key)
    except ServiceReplyError:
        return None
    return FinishedRun(log.run, log.result, StudyKey.from_json(log.run.key), _counting(log, log.run))


def _counting(log: RunLog, run: RunRecord) -> Sequence[Mapping[str, Any]]:
    """Return the results of a run that count, as the service counts them."""
    results = Results(run)
    records: list[Record] = [*log.samples, *([] if log.adoption is None else [log.adoption])]
    taken = [item for item in map(results.take, records) if item is not None and _is_possible(item.get("adoption"))]
    return [item for item in taken if item["valid"] and item["phase"] != Phase.WARMUP]


def _is_possible(test: Mapping[str, Any] | None) -> bool:
    """Tell whether a paired test's figures can be: a cache file is read as it is."""
    return test is None or -1.0 < test["ci_low"] <= test["speedup"] <= test["ci_high"]


def own_runs(runs: Sequence[FinishedRun]) -> OwnRuns:
    """Return the rule's answer for the runs of one key."""
    configs = [item for item in _configs(runs) if item.adopted]
    best = max(configs, key=lambda item: item.place, default=None)
    verdicts = KeyVerdicts.of(
        Decision(item.reporter, item.decided_unix_s, item.result.adopted, is_trusted_job=True) for item in runs
    )
    return OwnRuns(runs[0].key, runs, best, advice_on(best, best.adopters if best else (), verdicts))


def _configs(runs: Sequence[FinishedRun]) -> Sequence[LocalConfig]:
    """Return the configs that the runs tested, those whose votes hold."""
    by_config = sorted((item for item in runs if item.test is not None), key=lambda item: item.tested_config)
    chosen = {
        config: _of_one_baseline(list(own)) for config, own in groupby(by_config, lambda item: item.tested_config)
    }
    stands = {config: [_stand(item) for item in own] for config, own in chosen.items()}
    found = places([_contender(config, chosen[config][0], own) for config, own in stands.items()])
    held = [config for config in chosen if found[config].is_promising]
    return [_judged(config, runs, chosen[config], stands[config], found[config]) for config in held]


def _of_one_baseline(runs: Sequence[FinishedRun]) -> list[FinishedRun]:
    """Return the runs with one baseline among those that tested a config: over the default first, then the most."""
    groups: dict[str, list[FinishedRun]] = {}
    for item in runs:
        groups.setdefault(item.baseline, []).append(item)
    return max(groups.values(), key=lambda own: (own[0].is_over_default, len(own), own[0].baseline))


def _contender(config: str, first: FinishedRun, stands: Sequence[Stand]) -> Contender:
    return Contender(
        name=config,
        is_over_default=first.is_over_default,
        adopted={stand.reporter: stand.estimate.low for stand in stands if stand.name == "adopted"},
        kept=frozenset(stand.reporter for stand in stands if stand.name == "kept"),
        faster={},
        slower=0,
    )


def _stand(item: FinishedRun) -> Stand:
    """Return a run's word on the config that it tested."""
    test = (item.test or {})["adoption"]
    estimate = pooled([tested(test["speedup"], test["ci_low"], test["ci_high"], test["ci_level"])])
    name: StandName = "adopted" if estimate.low > 0.0 else "kept"
    return Stand(item.reporter, None, 1, 1, 0, name, estimate, item.decided_unix_s)


def _judged(
    config: str, runs: Sequence[FinishedRun], group: Sequence[FinishedRun], stands: Sequence[Stand], place: Place
) -> LocalConfig:
    """Return a config's votes and its place.

    Args:
        config: The config as text.
        runs: All runs of the key: those with this baseline have results of the config.
        group: Those that tested it.
        stands: Their words on it.
        place: Its place among the configs of the key.
    """
    values, votes = json.loads(config), votes_of(stands)
    alike = [item for item in runs if item.baseline == group[0].baseline]
    measured = [(item, count) for item in alike if (count := item.results_of(values))]
    interval = (votes.estimate or stands[0].estimate).interval
    is_over_default = group[0].is_over_default
    order = (is_over_default, place.is_supported, place.beaten, votes.adopted, -votes.since_unix_s, config)
    return LocalConfig(
        config_values=values,
        baseline_values=dict(group[0].run.baseline),
        trials=sum(count for _, count in measured),
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
        newest_unix_s=max(item.decided_unix_s for item, _ in measured),
        place=order,
        adopters=frozenset(_contender(config, group[0], stands).adopted),
    )
