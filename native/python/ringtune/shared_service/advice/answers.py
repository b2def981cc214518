# SPDX-License-Identifier: Apache-2.0
"""Answers: the advice on a key, or on the nearest one, as the reply of the interface has it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ringtune.shared_service import rest_models
from ringtune.shared_service.rest_models import Evidence, Recommendation
from ringtune.system.counts import counted
from ringtune.tuner import Config
from ringtune.tuner.priors.relevance import StudyKey

from .neighbours import not_measured
from .rule import Judged, KeyAdvice, evidence_of


@dataclass(frozen=True)
class OwnKey:
    """A key that is asked for, with the advice on it.

    Attributes:
        key: The key.
        advice: The rule's word on it.
        machine: Name of its machines, for people.
        results: Results that count, of all its jobs; only read where the default is kept.
        age_s: Seconds since the newest result of the adopted config, or since the newest verdict.
    """

    key: StudyKey
    advice: KeyAdvice
    machine: str
    results: int
    age_s: float


def rest_key(key: StudyKey) -> rest_models.StudyKey:
    """Return a key as the REST interface has it."""
    return rest_models.StudyKey(**{**vars(key), "layout": list(key.layout)})


def is_default(offer: Recommendation) -> bool:
    """Tell whether an answer is the default, as services of any version say it."""
    return "default" in {offer.standing, offer.source}


def is_pasted(offer: Recommendation) -> bool:
    """Tell whether an answer's config is shown as settings to paste: a paired test adopted it, whoever answered."""
    return not is_default(offer) and offer.evidence.adopted > 0


def own_answer(own: OwnKey, default: Mapping[str, Any], *, others: int | None = None) -> Recommendation:
    """Return the answer of a key's own verdicts; the advice has a standing.

    Args:
        own: The key.
        default: The default config of its target and layout.
        others: Number of other machines that match, where any will do: then the machine is named. None: one was asked.
    """
    advice, reason = own.advice, own.advice.reason
    if others is not None:
        beside = f"; {counted(others, 'other machine')} measured it, too" if others else ""
        reason = f"{reason}; measured on {own.machine}{beside}"
    if advice.best is None:
        jobs = advice.verdicts.kept + advice.verdicts.adopted
        evidence = Evidence(trials=own.results, jobs=jobs, age_s=max(own.age_s, 0.0))
        here = {"source": "exact", "key": rest_key(own.key), "distance": 0.0, "evidence": evidence}
        return Recommendation.of_default(default, own.key.target, reason).model_copy(update=here)
    is_confirmed = advice.standing == "confirmed"
    return Recommendation(
        config=dict(advice.best.config_values),
        source="exact",
        target=own.key.target,
        is_prior=not is_confirmed,
        standing="confirmed" if is_confirmed else "prior",
        evidence=evidence_of(advice.best, own.age_s, has_gain=is_confirmed),
        key=rest_key(own.key),
        distance=0.0,
        reason=reason,
    )


def nearest_answer(
    config: Config, best: Judged, age_s: float, *, asked: StudyKey, key: StudyKey, distance: float
) -> Recommendation:
    """Return the config that a neighbour's paired tests adopted: a prior, of which no gain is promised here.

    Args:
        config: The config, adapted to the asked layout.
        best: The config as it was measured.
        age_s: Seconds since its newest result.
        asked: The key that is asked for.
        key: The neighbour's.
        distance: The distance between the two.
    """
    return Recommendation(
        config=config.to_json(),
        source="nearest",
        target=key.target,
        is_prior=True,
        standing="prior",
        evidence=evidence_of(best, age_s, has_gain=False),
        key=rest_key(key),
        distance=distance,
        reason=f"prior: {not_measured(asked, key)}; no gain is promised here: test it first",
    )
