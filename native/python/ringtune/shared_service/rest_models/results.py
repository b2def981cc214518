# SPDX-License-Identifier: Apache-2.0
"""Results that jobs report, and the service's answers: which of them it keeps, and why."""

from typing import Annotated, Literal, TypeAlias

from pydantic import ConfigDict, FailFast, Field, StrictBool, StrictInt
from pydantic.config import JsonDict

from .fields import (
    MAX_BATCH,
    WHOLE,
    Config,
    Count,
    Name,
    Number,
    Positive,
    Reply,
    ShownText,
    Text,
    TrialName,
    Uuid,
    WireModel,
    one_of,
)

Reason: TypeAlias = Literal[
    "pause", "tensor_set_changed", "mixed_epochs", "no_gradients", "invalid_score", "launch_failed", "memory_limit"
]
Phase: TypeAlias = Literal["warmup", "baseline", "search", "adoption", "watch"]


class StepTimes(WireModel):
    """Location and spread of the step times, milliseconds; null where they do not exist."""

    median: Positive | None
    mad: Annotated[Positive | None, Field(description="Median absolute deviation.")]
    mean: Positive | None


class Adoption(WireModel):
    """Paired test at the end of a tuning run: the config's speed-up over the baseline."""

    speedup: Annotated[Number, Field(description="A fraction: 0.1 is a tenth more steps per second.")]
    ci_low: Number
    ci_high: Number
    pairs: Annotated[StrictInt, Field(ge=1, le=1_000_000), WHOLE]
    ci_level: Annotated[
        Number, Field(ge=0.5, lt=1, description="Level of the two-sided interval, a fraction; old clients send none.")
    ] = 0.95


EXAMPLE_RESULT: JsonDict = {
    "job_id": "0b9f7c52-3f63-4a39-8a8e-5b0a2f4f0d10",
    "config": {"fusion_bytes": 8388608, "response_cache": True},
    "score_bytes_per_s": 1.91e9,
    "step_ms": {"median": 53.1, "mad": 0.6, "mean": 53.4},
    "steps": 40,
    "valid": True,
    "reason": None,
    "adoption": None,
}


class Result(WireModel):
    """Measurement under a config: the tuning log's `sample`."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE_RESULT]})

    job_id: Uuid
    config: Annotated[Config, Field(min_length=1)]
    score_bytes_per_s: Annotated[Positive | None, Field(description="Gradient bytes per second; null where void.")]
    step_ms: StepTimes
    steps: Annotated[StrictInt, Field(ge=0, le=1_000_000_000), WHOLE]
    valid: StrictBool
    reason: Reason | None = None
    adoption: Adoption | None = None
    phase: Annotated[Phase, Field(description="`baseline`: what the job's other results are compared with.")] = "search"
    run_id: Annotated[Name | None, Field(description="Id of the tuning run, if it is known.")] = None
    fencing_token: Annotated[
        Count | None,
        Field(description="Fencing token of the lease, if there is one; a result under an older one is late."),
    ] = None


class TrialResult(Result):
    """A result and the trial that it belongs to."""

    trial_id: Uuid


class ResultBatch(WireModel):
    """Results of one study."""

    results: Annotated[list[TrialResult], Field(min_length=1, max_length=MAX_BATCH), FailFast()]


class StoredResult(Reply):
    """Outcome of a reported result: durable, unless it was refused."""

    trial_id: TrialName
    status: Annotated[
        ShownText,
        one_of("new", "same", "late", "quarantined", "conflict", "refused"),
        Field(
            description="`same`: it was here already. `late`: kept, but the lease had ended. `quarantined`: kept, and "
            "not used. `conflict`, `refused`: not kept (in a batch alone; a single result is answered by an error)."
        ),
    ]
    reason: Text | None = None
    code: Annotated[
        ShownText | None,
        Field(description="Stable code of the problem, as in `application/problem+json`, where it was not kept."),
    ] = None


class StoredBatch(Reply):
    """Outcome of each result, in the order of the request."""

    items: list[StoredResult]
