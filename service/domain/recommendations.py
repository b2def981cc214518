# SPDX-License-Identifier: Apache-2.0
"""Recommendations: the exact key's best config, else a neighbour's, else the default.

The answer for a key is one indexed read of a table that is derived from the ledger. Neighbours take a few reads more.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from sqlalchemy import Connection

from ringtune.rest_models import Candidate, Recommendation
from ringtune.service.errors import InvalidRequest
from ringtune.service.store import Database, studies, summaries
from ringtune.service.store.clock import now_unix_s
from ringtune.service.store.rows import NeighbourRow
from ringtune.service.store.summary_rows import ConfigSummary, JobSummary
from ringtune.tuner import Config, SearchSpace
from ringtune.tuner.space.parameters import default_config

from .evidence import mean_log_step
from .neighbours import TensorSet, adapted, corrected_gains, distance, is_of_engine, not_measured
from .shown_evidence import evidence_of, reason_of
from .spaces import ENGINE_TARGET
from .standings import engine_default
from .studies import MAX_HOSTS, digest_of
from .study_cache import key_of
from .values import ComparisonKey, RecommendationQuery

MAX_CANDIDATES = 50
MAX_NEIGHBOURS = 200
TRIED_NEIGHBOURS = 3
"""The first, whose best configs are looked at."""
CONFIGS_PER_NEIGHBOUR = 8
BASELINES = 16
UNKNOWN = "unknown"
MAX_RANKS = 4096 * 4096

Found: TypeAlias = tuple[Config, ConfigSummary, float]
"""A config for the asked key, the row that it was measured in, and its expected gain as ln."""


@dataclass(frozen=True)
class _Neighbour:
    row: NeighbourRow
    key: ComparisonKey
    distance: float


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
        candidates = _models(connection, query)
        if len(candidates) > 1:
            reason = f"{len(candidates)} models go by the name {query.model_name!r}: ask by fingerprint"
            return _default(query, reason, candidates)
        model = candidates[0].model_fingerprint if candidates else UNKNOWN
    asked = ComparisonKey(query.hardware or UNKNOWN, model, query.layout, query.target, query.surface_version)
    there = summaries.best_of_key(connection, digest_of(asked))
    if there is not None and there.best is not None:
        return _exact(there.best, there.now_unix_s, asked)
    if there is not None and studies.counts(connection, [there.study_id]).get(there.study_id, (0, 0))[1] > 1:
        return _default(query, "several jobs measured this key, and nothing beats their baseline")
    near = _nearest(connection, asked, query)
    return near or _default(query, "nothing that is faster was measured near enough")


def _exact(row: ConfigSummary, now_unix_s: float, asked: ComparisonKey) -> Recommendation:
    return Recommendation(
        config=row.config_values,
        source="exact",
        target=asked.target,
        is_prior=not row.is_confirmed,
        standing="confirmed" if row.is_confirmed else "prior",
        evidence=evidence_of(row, now_unix_s - row.newest_unix_s),
        key=asked.to_model(),
        distance=0.0,
        reason=reason_of(row),
    )


def _nearest(connection: Connection, asked: ComparisonKey, query: RecommendationQuery) -> Recommendation | None:
    near = _neighbours(connection, asked, query)[:TRIED_NEIGHBOURS]
    now = now_unix_s(connection)
    for neighbour in near:
        found = _best_there(connection, neighbour, asked)
        if found is None:
            continue
        config, row, _ = found
        return Recommendation(
            config=config.to_json(),
            source="nearest",
            target=neighbour.key.target,
            is_prior=True,
            standing="prior",
            evidence=evidence_of(row, now - row.newest_unix_s, is_here=False),
            key=neighbour.key.to_model(),
            distance=neighbour.distance,
            reason=f"prior: {not_measured(asked, neighbour.key)}; no gain is promised here: test it first",
        )
    return None


def _neighbours(connection: Connection, asked: ComparisonKey, query: RecommendationQuery) -> Sequence[_Neighbour]:
    """Return the studies that say something: what several jobs confirmed before what one said, then the nearest."""
    tensors = _asked_tensors(connection, asked, query)
    rows = studies.neighbours(
        connection,
        model=None if asked.model == UNKNOWN else asked.model,
        hardware=None if asked.hardware == UNKNOWN else asked.hardware,
        surface=(asked.target, asked.surface_version),
        limit=MAX_NEIGHBOURS,
    )
    known = {row.gradient_bytes: row for row in rows}  # texts that are equal are decoded once
    sets = {text: _tensors(row.tensor_bytes) for text, row in known.items()}
    keys = ((row, key_of(row)) for row in rows)
    found = (_Neighbour(row, key, distance(asked, key, tensors, sets[row.gradient_bytes])) for row, key in keys)
    return sorted((n for n in found if math.isfinite(n.distance)), key=_order)


def _order(neighbour: _Neighbour) -> tuple[bool, float, str]:
    return not neighbour.row.has_confirmed, neighbour.distance, neighbour.row.study_id


def _best_there(
    connection: Connection, neighbour: _Neighbour, asked: ComparisonKey
) -> tuple[Config, ConfigSummary, float] | None:
    """Return the neighbour's best config here, its row, and its expected gain as ln; None if none should gain."""
    rows = summaries.promising_of(connection, neighbour.row.study_id, CONFIGS_PER_NEIGHBOUR)
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
    asked: ComparisonKey,
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


def _is_default(config: Config, asked: ComparisonKey) -> bool:
    return asked.target == ENGINE_TARGET and config == default_config(asked.layout)


def _worth(found: Found) -> tuple[bool, bool, float]:
    """Return what orders configs of one study: the lower bound, moved as the expectation is from there to here."""
    _, row, gain = found
    return row.is_confirmed, row.is_over_default, gain - math.log1p(row.speedup or 0.0) + math.log1p(row.ci_low or 0.0)


def _default(query: RecommendationQuery, reason: str, candidates: tuple[Candidate, ...] = ()) -> Recommendation:
    """Return the engine's default; of other targets it is to set nothing."""
    config = default_config(query.layout).to_json() if query.target == ENGINE_TARGET else {}
    return Recommendation.of_default(config, query.target, reason, candidates)


def _models(connection: Connection, query: RecommendationQuery) -> tuple[Candidate, ...]:
    rows = studies.models_named(connection, query.model_name or "", query.target, MAX_CANDIDATES)
    return tuple(Candidate(model_fingerprint=row.model, model_name=row.model_name, trials=row.trials) for row in rows)


def _asked_tensors(connection: Connection, asked: ComparisonKey, query: RecommendationQuery) -> TensorSet | None:
    if query.step_bytes and query.tensors:
        return TensorSet(query.step_bytes, query.tensors)
    known = studies.facts_of_model(connection, asked.model)
    return None if known is None else _tensors(known)


def _tensors(sizes: Sequence[int]) -> TensorSet | None:
    return TensorSet(sum(sizes), len(sizes)) if sizes else None


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
