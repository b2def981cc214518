# SPDX-License-Identifier: Apache-2.0
"""Recommendations: the config that a job should start with, and its evidence."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field, StrictBool
from pydantic.json_schema import SkipJsonSchema

from .fields import (
    LARGEST_INTEGER,
    MAX_HOSTS,
    MAX_RANKS_PER_HOST,
    Config,
    Count,
    Fingerprint,
    Name,
    NamedTarget,
    Number,
    QueryParams,
    Reply,
    Seconds,
    ShownText,
    TargetName,
    Text,
    one_of,
)
from .studies import StudyKey

QueryCount = Annotated[int, Field(ge=0, le=LARGEST_INTEGER)]


class RecommendationParams(QueryParams):
    """Query parameters of `GET /v1/recommendations`; the model goes by its fingerprint or by its name."""

    model: Annotated[
        Name | SkipJsonSchema[None], Field(description="Its name; an ambiguous one is answered with candidates.")
    ] = None
    model_fingerprint: Fingerprint | SkipJsonSchema[None] = None
    hardware: Annotated[
        Fingerprint | SkipJsonSchema[None],
        Field(description="Fingerprint that `ringtune doctor --fingerprint` prints."),
    ] = None
    world_size: Annotated[int, Field(ge=1, le=MAX_HOSTS * MAX_RANKS_PER_HOST)] = 1
    local_size: (
        Annotated[int, Field(ge=1, le=MAX_RANKS_PER_HOST, description="Ranks per host; default: all on one.")]
        | SkipJsonSchema[None]
    ) = None
    target: TargetName = "ringtune"
    surface_version: Annotated[int, Field(ge=1, le=2**31 - 1)] = 1
    step_bytes: Annotated[
        QueryCount | SkipJsonSchema[None], Field(description="Gradient bytes of a step: finds similar models.")
    ] = None
    tensors: Annotated[QueryCount | SkipJsonSchema[None], Field(description="Gradients of a step.")] = None


class Evidence(Reply):
    """Evidence behind a recommendation; all zero or null without any."""

    trials: Annotated[
        Count, Field(description="Results of the config that count; of all configs where the default is kept.")
    ] = 0
    jobs: Annotated[
        Count, Field(description="Jobs that measured it and the baseline; with a verdict where the default is kept.")
    ] = 0
    reporters: Annotated[
        Count, Field(description="Independent ones: tokens, and jobs that count one by one (`trusted_jobs`).")
    ] = 0
    adopted: Annotated[Count, Field(description="Reporters whose paired tests adopted it.")] = 0
    opposed: Annotated[
        Count,
        Field(description="Reporters whose paired tests kept the baseline; without a test, whose windows are slower."),
    ] = 0
    trusted_jobs: Annotated[
        Count,
        Field(
            description="Reporters that are jobs: reported while the service was open on loopback, or with a token "
            "that an operator declared to stand for many independent jobs."
        ),
    ] = 0
    speedup: Annotated[
        Number | None,
        Field(description="Over the baseline, a fraction, by the reporters' paired tests; null for a prior."),
    ] = None
    ci_low: Annotated[Number | None, Field(description="Lower end of its two-sided interval.")] = None
    ci_high: Number | None = None
    ci_level: Annotated[Number | None, Field(description="Level of the interval, a fraction.")] = None
    age_s: Annotated[Seconds | None, Field(description="Since the newest result behind it.")] = None
    baseline: Annotated[Config | None, Field(description="Baseline of the speed-up, which all these jobs share.")] = (
        None
    )


class Candidate(Reply):
    """One of several models that go by the name that was asked for."""

    model_fingerprint: Fingerprint
    model_name: Name | None
    trials: Count


class Recommendation(Reply):
    """A config to start with; no evidence is an answer too: the default."""

    config: Annotated[Config, Field(description="Empty where nothing is known of the target: leave it as it is.")]
    source: Annotated[ShownText, one_of("exact", "nearest", "default")]
    target: Annotated[NamedTarget, Field(description="Target that the config was measured on.")]
    is_prior: Annotated[StrictBool, Field(description="True if the job must test it before relying on it.")]
    standing: Annotated[
        ShownText,
        one_of("confirmed", "prior", "default"),
        Field(
            description="`confirmed`: adopted in paired tests of two independent reporters on this key. `prior`: "
            "adopted in paired tests, but not confirmed, or near this key: no gain is promised. `default`: the newest "
            "verdict of this key keeps it (`source` is `exact`), or nothing was adopted near."
        ),
    ] = "prior"
    evidence: Evidence
    try_first: Annotated[
        Config | None,
        Field(
            description="Config that a search may measure first, where the answer is the default: windows or an "
            "outvoted test were faster. It is no setting to paste."
        ),
    ] = None
    key: Annotated[StudyKey | None, Field(description="The study behind it; null without one.")] = None
    distance: Annotated[Number | None, Field(description="Distance from the requested key; 0 if exact.")] = None
    reason: Annotated[Text | None, Field(description="Reason for this config, in words.")] = None
    candidates: Annotated[
        Sequence[Candidate],
        Field(description="Not empty if the model's name is ambiguous: ask again by fingerprint."),
    ] = ()

    @classmethod
    def of_default(
        cls, config: Mapping[str, Any], target: str, reason: str, candidates: Sequence[Candidate] = ()
    ) -> "Recommendation":
        """Return the answer without evidence: a target's default config, and the reason for it in words."""
        return cls(
            config=config,
            source="default",
            target=target,
            is_prior=False,
            standing="default",
            evidence=Evidence(),
            reason=reason,
            candidates=list(candidates),
        )
