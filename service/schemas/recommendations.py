# SPDX-License-Identifier: Apache-2.0
"""The config that a job should start with, and why."""

from typing import Annotated, Literal

from pydantic import Field, StrictBool

from .fields import Config, Count, Fingerprint, Message, Name, Number, Seconds, TargetName, Text
from .studies import StudyKey


class Evidence(Message):
    """The evidence of the recommendation; all zero or null without any."""

    trials: Count
    jobs: Count
    reporters: Annotated[
        Count, Field(description="Independent ones: tokens, and jobs that count one by one (`trusted_jobs`).")
    ] = 0
    adopted: Annotated[Count, Field(description="Reporters whose paired tests adopted it.")] = 0
    opposed: Annotated[
        Count, Field(description="Reporters whose paired tests kept the baseline, or whose windows show it slower.")
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


class Candidate(Message):
    """One of several models that go by the name that was asked for."""

    model_fingerprint: Fingerprint
    model_name: Name | None
    trials: Count


class Recommendation(Message):
    """A config to start with; no evidence is an answer too: the default."""

    config: Annotated[Config, Field(description="Empty where nothing is known of the target: leave it as it is.")]
    source: Literal["exact", "nearest", "default"]
    target: Annotated[TargetName, Field(description="Target that the config was measured on.")]
    is_prior: Annotated[StrictBool, Field(description="True if the job must test it before relying on it.")]
    standing: Annotated[
        Literal["confirmed", "prior", "default"],
        Field(
            description="`confirmed`: adopted in paired tests of two independent reporters on this key. `prior`: "
            "anything else, of which no gain is promised. `default`: no evidence."
        ),
    ]
    evidence: Evidence
    key: Annotated[StudyKey | None, Field(description="The study behind it; null for the default.")] = None
    distance: Annotated[Number | None, Field(description="Distance from the requested key; 0 if exact.")] = None
    reason: Annotated[Text | None, Field(description="Reason for this config, in words.")] = None
    candidates: Annotated[
        list[Candidate],
        Field(
            default_factory=list,
            description="Not empty if the model's name is ambiguous: ask again by fingerprint.",
        ),
    ]
