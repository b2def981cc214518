# SPDX-License-Identifier: Apache-2.0
"""Recommendations: the verdicts of the exact key, else a neighbour's adopted config, else the default.

The rule is `advice.rule`'s; here are the reads that it takes, each along an index, and neighbours' gains moved to the
asked layout.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from sqlalchemy import Connection

from ringtune.service.errors import InvalidRequest
from ringtune.service.store import Database, key_verdicts, studies, summaries
from ringtune.service.store.clock import now_unix_s
from ringtune.service.store.rows import NeighbourRow, StudyHead
from ringtune.service.store.summary_rows import AgedConfig, ConfigSummary, JobSummary
from ringtune.shared_service.advice.answers import OwnKey, nearest_answer, own_answer
from ringtune.shared_service.advice.neighbours import adapted, corrected_gains, is_of_engine
from ringtune.shared_service.advice.rule import NOT_FASTER, KeyAdvice
from ringtune.shared_service.rest_models import Candidate, Recommendation
from ringtune.tuner import Config, SearchSpace
from ringtune.tuner.priors.relevance import MAX_DISTANCE, StudyKey, TensorSet, distance
from ringtune.tuner.space.parameters import default_config

from .canonical import canonical
from .evidence import mean_log_step
from .key_advice import advice_of
from .spaces import ENGINE_TARGET
from .standings import engine_default
from .studies import MAX_HOSTS
from .study_cache import key_of
from .values import RecommendationQuery

MAX_CANDIDATES = 50
MAX_NEIGHBOURS = 200
LOOKED_AT = 16
"""The nearest, whose verdicts are looked at."""
TRIED_NEIGHBOURS = 3
"""The first with an upheld adoption, whose best configs are looked at."""
MAX_MACHINES = 50
"""Machines that are compared where any will do, those of the newest studies."""
SHORT = 10
"""Digits by which a machine without a name goes."""
CONFIGS_PER_NEIGHBOUR = 8
BASELINES = 16
UNKNOWN = "unknown"
MAX_RANKS = 4096 * 4096

Found: TypeAlias = tuple[Config, AgedConfig, float]
"""A config for the asked key, the row that it was measured in, and its expected gain as ln."""


@dataclass(frozen=True)
class _Neighbour:
    """A study that is near; `asked` is the key that is asked for, on its hardware if any will do."""

    row: NeighbourRow
    key: StudyKey
    asked: StudyKey
    distance: float


@dataclass(frozen=True)
class _OwnStudy:
    """A study of the key that is asked for, and the advice on it."""

    row: StudyHead
    advice: KeyAdvice


class Recommendations:
    """Answers from the derived tables."""

    def __init__(self, database: Database) -> None:
        """Read from `database`."""
        self._database = database

    def find(self, query: RecommendationQuery) -> Recommendation:
        """Return the best known start; no evidence is an answer too: the default.

        Raises:
            InvalidRequest: If the query names no model, or no possible layout.
            StoreUnavailable: If the database does not answer.
        """
        _check(query)
        return self._database.look(lambda connection: _found(connection, query))


def _found(connection: Connection, query: RecommendationQuery) -> Recommendation:
    model = query.model
    if model is None:
        candidates, number = _models(connection, query)
        if number > 1:
            reason = f"{number} models go by the name {query.model_name!r}: ask by fingerprint"
            return _default(query, reason, candidates)
        model = candidates[0].model_fingerprint if candidates else UNKNOWN
    asked = StudyKey(query.hardware or UNKNOWN, model, query.layout, query.target, query.surface_version)
    here = _own(connection, asked, query)
    answer = _exact(connection, here, query) or _nearest(connection, asked, query)
    if answer is not None and answer.standing != "default":
        return answer
    seed = _seed(connection, here, asked, query)
    return (answer or _default(query, NOT_FASTER)).model_copy(update={"try_first": seed})


def _own(connection: Connection, asked: StudyKey, query: RecommendationQuery) -> Sequence[_OwnStudy]:
    """Return the studies of the key, of all hardware if none is asked, with the advice on each; the answer's first."""
    rows = key_verdicts.studies_of_key(
        connection,
        model=asked.model,
        hardware=query.hardware,
        layout=canonical(list(asked.layout)),
        surface=(asked.target, asked.surface_version),
        limit=MAX_MACHINES,
    )
    found = [_OwnStudy(row, advice_of(connection, row.study_id).said) for row in rows]
    return sorted(found, key=lambda item: item.advice.precedence, reverse=True)


def _exact(connection: Connection, here: Sequence[_OwnStudy], query: RecommendationQuery) -> Recommendation | None:
    """Return the answer of the key's own verdicts, None without any."""
    told = [item for item in here if item.advice.standing is not None]
    if not told:
        return None
    row, advice, now = told[0].row, told[0].advice, now_unix_s(connection)
    newest, results = advice.verdicts.newest, 0
    newest_unix_s = now if newest is None else newest.unix_s
    if advice.best is not None:
        newest_unix_s = advice.best.newest_unix_s
    else:
        results, _ = studies.counts(connection, [row.study_id]).get(row.study_id, (0, 0))
    own = OwnKey(key_of(row), advice, machine_name(row), results, now - newest_unix_s)
    return own_answer(own, _default_config(query), others=None if query.hardware else len(told) - 1)


def _seed(
    connection: Connection, here: Sequence[_OwnStudy], asked: StudyKey, query: RecommendationQuery
) -> Mapping[str, Any] | None:
    """Return a config that a search may begin with, where there is none to paste; None without one."""
    for item in here:
        for row in key_verdicts.promising_of(connection, item.row.study_id, 1):
            return row.config_values
    for neighbour in _neighbours(connection, asked, query)[:TRIED_NEIGHBOURS]:
        rows = key_verdicts.promising_of(connection, neighbour.row.study_id, CONFIGS_PER_NEIGHBOUR)
        found = _best_there(connection, neighbour, asked, rows)
        if found is not None:
            return found[0].to_json()
    return None


def _nearest(connection: Connection, asked: StudyKey, query: RecommendationQuery) -> Recommendation | None:
    """Return the answer of the nearest key with an upheld adoption; None without one."""
    tried = 0
    for neighbour in _neighbours(connection, asked, query)[:LOOKED_AT]:
        advice = advice_of(connection, neighbour.row.study_id)
        if tried == TRIED_NEIGHBOURS or advice.best is None:
            continue
        tried += 1
        rows = key_verdicts.adopted_of(connection, neighbour.row.study_id, CONFIGS_PER_NEIGHBOUR)
        found = _best_there(connection, neighbour, asked, rows)
        if found is None:
            continue
        config, row, _ = found
        key, far = neighbour.key, neighbour.distance
        return nearest_answer(config, row, row.age_s, asked=neighbour.asked, key=key, distance=far)
    return None


def _neighbours(connection: Connection, asked: StudyKey, query: RecommendationQuery) -> Sequence[_Neighbour]:
    """Return the studies with a verdict: those that several jobs confirmed first, then the nearest."""
    tensors = _asked_tensors(connection, asked, query)
    rows = studies.neighbours(
        connection,
        model=None if asked.model == UNKNOWN else asked.model,
        hardware=None if asked.hardware == UNKNOWN else asked.hardware,
        surface=(asked.target, asked.surface_version),
        limit=MAX_NEIGHBOURS,
    )
    known = {row.gradient_bytes: row for row in rows}  # texts that are equal are decoded once
    sets = {text: TensorSet.of_sizes(row.tensor_bytes) for text, row in known.items()}
    found = []
    for row in rows:
        key = key_of(row)
        wanted = asked if query.hardware is not None else replace(asked, hardware=key.hardware)
        found.append(_Neighbour(row, key, wanted, distance(wanted, key, tensors, sets[row.gradient_bytes])))
    near = (n for n in found if n.distance <= MAX_DISTANCE)
    return sorted(near, key=lambda n: (not n.row.has_confirmed, not n.row.has_adopted, n.distance, n.row.study_id))


def _best_there(
    connection: Connection, neighbour: _Neighbour, asked: StudyKey, rows: Sequence[AgedConfig]
) -> Found | None:
    """Return the best here of a neighbour's configs, its row, and its expected gain as ln; None if none should gain."""
    measured = [Config(row.config_values) for row in rows]
    configs = [adapted(config, asked.layout, asked.target) for config in measured]
    gains = _gains_here(connection, neighbour, asked, rows, measured)
    found = [
        (config, row, gain)
        for config, row, gain in zip(configs, rows, gains, strict=True)
        if gain > 0.0 and not _is_default(config, asked)
    ]
    return max(found, key=_worth, default=None)


def _gains_here(
    connection: Connection,
    neighbour: _Neighbour,
    asked: StudyKey,
    rows: Sequence[ConfigSummary],
    measured: Sequence[Config],
) -> Sequence[float]:
    """Return the gains that the neighbour measured as ln, as the cost model moves them to the asked layout."""
    gains = [math.log1p(row.speedup or 0.0) for row in rows]
    space = SearchSpace.from_json(neighbour.row.search_space)
    if neighbour.key.model != asked.model or asked.target != ENGINE_TARGET or not is_of_engine(space):
        return gains
    return list(
        corrected_gains(
            measured,
            gains,
            gradient_bytes=neighbour.row.tensor_bytes,
            layouts=(neighbour.key.layout, asked.layout),
            baselines=[Config(row.baseline_values or {}) for row in rows],
            default_step_ms=_default_step_ms(
                summaries.baselines_of(connection, neighbour.row.study_id, BASELINES), neighbour.key.layout
            ),
        )
    )


def _is_default(config: Config, asked: StudyKey) -> bool:
    return asked.target == ENGINE_TARGET and config == default_config(asked.layout)


def _worth(found: Found) -> tuple[bool, bool, float]:
    """Return the order of configs of one study: the lower bound, moved as the expectation is from there to here."""
    _, row, gain = found
    return row.is_confirmed, row.is_over_default, gain - math.log1p(row.speedup or 0.0) + math.log1p(row.ci_low or 0.0)


def machine_name(row: StudyHead) -> str:
    """Return people's name of a study's hardware, else the beginning of its fingerprint."""
    return row.hardware_name or row.machines_text or f"machine {row.hardware[:SHORT]}"


def _default(query: RecommendationQuery, reason: str, candidates: tuple[Candidate, ...] = ()) -> Recommendation:
    return Recommendation.of_default(_default_config(query), query.target, reason, candidates)


def _default_config(query: RecommendationQuery) -> Mapping[str, Any]:
    """Return the engine's default; of other targets it is an empty config."""
    return default_config(query.layout).to_json() if query.target == ENGINE_TARGET else {}


def _models(connection: Connection, query: RecommendationQuery) -> tuple[tuple[Candidate, ...], int]:
    """Return the models of a name, the likeliest first, and how many there are."""
    name, target = query.model_name or "", query.target
    rows, number = studies.models_named(connection, name, target, MAX_CANDIDATES, query.hardware)
    found = (Candidate(model_fingerprint=row.model, model_name=row.model_name, trials=row.trials) for row in rows)
    return tuple(found), number


def _asked_tensors(connection: Connection, asked: StudyKey, query: RecommendationQuery) -> TensorSet | None:
    if query.step_bytes and query.tensors:
        return TensorSet(query.step_bytes, query.tensors)
    known = studies.facts_of_model(connection, asked.model)
    return None if known is None else TensorSet.of_sizes(known)


def _default_step_ms(baselines: Iterable[JobSummary], layout: Sequence[int]) -> float | None:
    default = engine_default(layout)
    of_default = (row for row in baselines if row.baseline == default)
    means = [mean for mean in map(mean_log_step, of_default) if mean is not None]
    return math.exp(sum(means) / len(means)) if means else None


def _check(query: RecommendationQuery) -> None:
    if query.model is None and query.model_name is None:
        raise InvalidRequest("a recommendation needs the model's fingerprint or its name")
    is_possible = 1 <= query.local_size <= query.world_size <= MAX_RANKS
    if not is_possible or query.world_size > MAX_HOSTS * query.local_size:  # before the layout is made
        raise InvalidRequest(
            f"world_size={query.world_size} with local_size={query.local_size} is no layout: "
            f"1 <= local_size <= world_size, on up to {MAX_HOSTS} hosts"
        )
