# SPDX-License-Identifier: Apache-2.0
"""The fields that bodies and replies share: what may stand in an id, a name, a number, a config.

All are strict (text is no number, 1 is no switch), finite and bounded, so that whatever passes can be stored.
"""

from typing import Annotated, TypeAlias

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    FiniteFloat,
    StrictBool,
    StrictInt,
    StringConstraints,
)

MAX_HOSTS = 4096
MAX_RANKS_PER_HOST = 4096
MAX_BATCH = 1000
MAX_TENSORS = 10_000
MAX_RECORDS = 50_000
MAX_PAGE = 200
MAX_LEASE_S = 86_400.0
LARGEST_INTEGER = 2**53 - 1
"""Largest integer that every reader of JSON holds exactly, and a database's integer too."""

PRINTABLE = r"^[^\x00-\x1f\x7f-\x9f]*$"
"""No control characters: names are shown to people, and PostgreSQL stores no NUL."""
UUID_PATTERN = r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"


def _whole(value: object) -> object:
    """Return 3 for 3.0: JSON has one kind of number, and JSON Schema takes both for an integer."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


class Message(BaseModel):
    """The base of bodies and replies: no fields beyond those that are named here."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


Uuid: TypeAlias = Annotated[
    str,
    StringConstraints(pattern=UUID_PATTERN),
    Field(description="A UUID that the client made, in lower case.", examples=["6f1c2d1e-8a50-4c0e-9d2b-0a3f5b7c9d11"]),
]
Fingerprint: TypeAlias = Annotated[
    str, StringConstraints(pattern=r"^[0-9a-f]{64}$"), Field(description="A SHA-256 in hex.", examples=["ab" * 32])
]
TargetName: TypeAlias = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z0-9][a-z0-9_.-]{0,63}$"),
    Field(description="Tuned target: `ringtune`, `torch-ddp`, `openmpi`, ...", examples=["ringtune"]),
]
Name: TypeAlias = Annotated[
    str,
    StringConstraints(min_length=1, max_length=200, pattern=PRINTABLE),
    Field(description="Name for people; the key stays the fingerprint.", examples=["resnet50"]),
]
Text: TypeAlias = Annotated[str, StringConstraints(max_length=2000)]

Number: TypeAlias = Annotated[FiniteFloat, Field(ge=-1e300, le=1e300)]
Positive: TypeAlias = Annotated[FiniteFloat, Field(ge=0, le=1e300)]
WHOLE = BeforeValidator(_whole)
"""Goes last: what comes after it in an annotation is checked before it, and not described."""
Count: TypeAlias = Annotated[StrictInt, Field(ge=0, le=LARGEST_INTEGER), WHOLE]
Integer: TypeAlias = Annotated[StrictInt, Field(ge=-LARGEST_INTEGER, le=LARGEST_INTEGER)]
Seconds: TypeAlias = Annotated[FiniteFloat, Field(ge=0)]
LeaseSeconds: TypeAlias = Annotated[
    FiniteFloat,
    Field(ge=1, le=MAX_LEASE_S, description="Seconds for which the trial stays this job's without a renewal."),
]

ParameterName: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,63}$")]
ParameterValue: TypeAlias = (
    StrictBool | Integer | Number | Annotated[str, StringConstraints(max_length=64, pattern=PRINTABLE)]
)
Config: TypeAlias = Annotated[
    dict[ParameterName, ParameterValue],
    Field(
        max_length=64,
        description="A value for every parameter, in the units of their names.",
        json_schema_extra={"additionalProperties": False},  # keys that match no pattern are refused
        examples=[
            {
                "fusion_bytes": 8388608,
                "cycle_ms": 0.5,
                "hierarchical_allreduce": False,
                "hierarchical_allgather": False,
                "response_cache": True,
                "allreduce_algorithm": "auto",
                "chunk_bytes": "auto",
            }
        ],
    ),
]
