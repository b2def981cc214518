# SPDX-License-Identifier: Apache-2.0
"""Field types of bodies and replies: ids, names, numbers, configs.

All are strict (text is no number, 1 is no switch), finite and bounded, so that whatever passes can be stored.
"""

from collections.abc import Mapping
from typing import Annotated, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    FiniteFloat,
    GetJsonSchemaHandler,
    StrictBool,
    StrictInt,
    StringConstraints,
)
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from ringtune.system.printable import printable

MAX_HOSTS = 4096
MAX_RANKS_PER_HOST = 4096
MAX_BATCH = 1000
MAX_TENSORS = 10_000
MAX_RECORDS = 50_000
MAX_PAGE = 200
MAX_LEASE_S = 86_400.0
MAX_TEXT = 2000
MAX_NAME = 200
LARGEST_INTEGER = 2**53 - 1
"""Largest integer that every JSON reader holds exactly; a database's integers reach further."""

PRINTABLE = r"^[^\x00-\x1f\x7f-\x9f]*$"
"""No control characters: names are shown to people, and PostgreSQL stores no NUL."""
UUID_PATTERN = r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"


def _whole(value: object) -> object:
    """Return 3 for 3.0: JSON has one kind of number, and JSON Schema takes both for an integer."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


class WireModel(BaseModel):
    """Base of all bodies and replies: strict, immutable, with no fields but those that are named."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Reply(WireModel):
    """Base of replies: the service always sends every field; those with a default may be missing from an older one."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=True)


class QueryParams(WireModel):
    """Base of query parameters, which come as text."""

    model_config = ConfigDict(strict=False)


class DescribedAs:
    """Marker of a JSON object that OpenAPI describes as a model, and that readers take as it is."""

    def __init__(self, model: type[BaseModel]) -> None:
        """Describe the field as `model`."""
        self._model = model

    def __get_pydantic_json_schema__(self, _schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Return the model's description."""
        return handler(self._model.__pydantic_core_schema__)


def one_of(*words: str) -> FieldInfo:
    """Return the description of a field that has one of these words; a newer service may know one more."""
    described: FieldInfo = Field(json_schema_extra={"enum": list(words)})
    return described


SHOWN = AfterValidator(printable)
"""Validator of a reply's texts, which end up on terminals and in shells: an unprintable character becomes its escape.

No text is refused: a service may hand on a text that an older one has stored, or that a job has sent.
"""
ShownText: TypeAlias = Annotated[str, SHOWN]
Uuid: TypeAlias = Annotated[
    str,
    StringConstraints(pattern=UUID_PATTERN),
    Field(description="A UUID that the client made, in lower case.", examples=["6f1c2d1e-8a50-4c0e-9d2b-0a3f5b7c9d11"]),
]
TrialName: TypeAlias = Annotated[
    ShownText, Field(description="The trial's id.", json_schema_extra={"pattern": UUID_PATTERN})
]
"""A trial's id in a reply: imports may have brought others than UUIDs."""
Fingerprint: TypeAlias = Annotated[
    str, StringConstraints(pattern=r"^[0-9a-f]{64}$"), Field(description="A SHA-256 in hex.", examples=["ab" * 32])
]
TARGET_PATTERN = r"^[a-z0-9][a-z0-9_.-]{0,63}$"
TargetName: TypeAlias = Annotated[
    str,
    StringConstraints(pattern=TARGET_PATTERN),
    Field(description="Tuned target: `ringtune`, `torch-ddp`, `openmpi`, ...", examples=["ringtune"]),
]
NamedTarget: TypeAlias = Annotated[
    ShownText, Field(json_schema_extra={"pattern": TARGET_PATTERN}, examples=["ringtune"])
]
"""A target in a reply: a page may ask for, and an import may have brought, one whose name is none."""
Name: TypeAlias = Annotated[
    str,
    StringConstraints(min_length=1, max_length=MAX_NAME, pattern=PRINTABLE),
    Field(description="Name for people; the key stays the fingerprint.", examples=["resnet50"]),
]
Text: TypeAlias = Annotated[str, StringConstraints(max_length=MAX_TEXT), SHOWN]

Number: TypeAlias = Annotated[FiniteFloat, Field(ge=-1e300, le=1e300)]
Positive: TypeAlias = Annotated[FiniteFloat, Field(ge=0, le=1e300)]
WHOLE = BeforeValidator(_whole)
"""Validator that takes 3.0 for 3. It stands last in an annotation: the types after it check first, undescribed."""
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
    Mapping[ParameterName, ParameterValue],
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
                "nccl_pack_bytes": 262144,
                "nccl_ctas": "auto",
                "nccl_hierarchical": False,
                "connections": 1,
                "skew": False,
                "wire": "exact",
            }
        ],
    ),
]
