# SPDX-License-Identifier: Apache-2.0
"""A study: all trials for one key."""

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import FailFast, Field, StrictBool, StrictInt, StringConstraints

from .fields import (
    MAX_HOSTS,
    MAX_RANKS_PER_HOST,
    MAX_TENSORS,
    WHOLE,
    Count,
    DescribedAs,
    Fingerprint,
    Name,
    Number,
    ParameterName,
    ParameterValue,
    Reply,
    Seconds,
    ShownText,
    TargetName,
    WireModel,
)

StudyId: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$"), Field(description="Id of the study.")]


class StudyKey(WireModel):
    """Key of a study: measurements with the same key are comparable."""

    hardware: Fingerprint
    model: Fingerprint
    layout: Annotated[
        list[Annotated[StrictInt, Field(ge=1, le=MAX_RANKS_PER_HOST), WHOLE]],
        Field(min_length=1, max_length=MAX_HOSTS, description="Ranks per host, sorted.", examples=[[8, 8]]),
        FailFast(),
    ]
    target: TargetName = "ringtune"
    surface_version: Annotated[
        StrictInt, Field(ge=1, le=2**31 - 1, description="Raised only when old measurements no longer apply."), WHOLE
    ] = 1


class NumberParameter(WireModel):
    """A number between `low` and `high`, or one of the `special` values."""

    kind: Literal["number"]
    name: ParameterName
    low: Number
    high: Number
    default: ParameterValue
    scale: Literal["linear", "log", "log2"] = "linear"
    step: Annotated[StrictInt, Field(ge=0, le=2**40), WHOLE] = 0
    special: Annotated[list[ParameterValue], Field(default_factory=list, max_length=16)]


class BooleanParameter(WireModel):
    """A switch."""

    kind: Literal["boolean"]
    name: ParameterName
    default: StrictBool


class CategoryParameter(WireModel):
    """One of several names without an order."""

    kind: Literal["category"]
    name: ParameterName
    choices: Annotated[list[Name], Field(min_length=1, max_length=64)]
    default: Name


class SearchSpace(WireModel):
    """The legal configs: as the tuning log's `search_space`."""

    parameters: Annotated[
        list[Annotated[NumberParameter | BooleanParameter | CategoryParameter, Field(discriminator="kind")]],
        Field(min_length=1, max_length=64),
        FailFast(),
    ]
    fixed: Annotated[
        dict[ParameterName, ParameterValue],
        Field(default_factory=dict, max_length=64, json_schema_extra={"additionalProperties": False}),
    ]


EXAMPLE_SPACE = {
    "parameters": [
        {
            "kind": "number",
            "name": "fusion_bytes",
            "low": 65536.0,
            "high": 268435456.0,
            "default": 67108864,
            "scale": "log2",
            "step": 65536,
            "special": [0],
        },
        {"kind": "boolean", "name": "response_cache", "default": True},
    ],
    "fixed": {},
}


class NewStudy(WireModel):
    """Find the study of a key, or create it."""

    key: StudyKey
    model_name: Name | None = None
    hardware_name: Name | None = None
    search_space: Annotated[
        SearchSpace,
        Field(
            examples=[EXAMPLE_SPACE],
            description="Legal configs; suggestions keep to the first job's space, unless a job sends its own.",
        ),
    ]
    gradient_bytes: Annotated[
        list[Count],
        Field(
            default_factory=list,
            max_length=MAX_TENSORS,
            description="Bytes of each gradient of a step, in any order, if known: finds similar models.",
        ),
        FailFast(),
    ]


class Study(Reply):
    """A study, as the service knows it."""

    id: StudyId
    key: StudyKey
    model_name: Name | None
    hardware_name: Name | None
    # Not validated: a client may know fewer kinds of parameters than the service.
    search_space: Annotated[dict[str, Any], DescribedAs(SearchSpace)]
    trials: Count
    jobs: Count
    age_s: Annotated[Seconds, Field(description="Since it was created.")]
    page: Annotated[
        ShownText | None,
        Field(
            description="Path of the study's page, below the service's address; null where the service has no pages.",
            examples=["/studies/" + "ab" * 16],
        ),
    ] = None


class StudyPage(Reply):
    """Some studies; `next_cursor` is null on the last page."""

    items: list[Study]
    next_cursor: ShownText | None = None
