# SPDX-License-Identifier: Apache-2.0
"""Records of the tuning log, schema 1: the dataclasses are the schema, one field per key of the JSON object."""

import math
import types
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cache
from typing import Any, TypeAlias, Union, get_args, get_origin, get_type_hints

from ringtune.tuner.sample import Phase, Sample, VoidReason
from ringtune.tuner.space.config import Value

SCHEMA = 1
MAX_INTEGER = 2**64
"""Upper bound of an integer: no count or size is larger, and a larger one may not fit into a float."""

Json: TypeAlias = dict[str, Any]
ConfigJson: TypeAlias = dict[str, Value]
OLD_CI_LEVEL = 0.95
"""Level of the intervals in older logs, which do not record it."""
MAX_STEP_MS = 1e12
"""Upper bound of a step time, thirty years: a larger number is from a damaged file, and its square may overflow."""


class RecordError(ValueError):
    """An object is not a record of the tuning log; the message gives the reason."""


@dataclass(frozen=True)
class RunRecord:
    """First record of a run: everything needed to resume or judge it, and its labels.

    Fields with a default are omitted if they are null, and missing in older logs. `continues` has the ids of the runs
    whose samples this run has taken over, the oldest first; it is null where runs of a log are joined by their order.
    """

    t_s: float
    run_id: str
    schema: int
    unix_time_s: float
    model_name: str | None
    key: Json
    layout: Json
    versions: Json
    search_space: Json
    fixed: ConfigJson
    baseline: ConfigJson
    seed: int
    steps_budget: Json
    job_name: str | None = None
    tags: list[str] | None = None
    commit: str | None = None
    hardware_name: str | None = None
    machines: list[Json] | None = None
    begins_with: list[str] | None = None
    memory_limit_bytes: int | None = None
    continues: list[str] | None = None


@dataclass(frozen=True)
class SampleRecord:
    """Record of a window and its sample; `score_bytes_per_s` and the step times are null if they do not exist."""

    t_s: float
    run_id: str
    trial_id: int
    window: int
    phase: str
    epoch: int
    config: ConfigJson
    score_bytes_per_s: float | None
    step_ms: Json
    steps: int
    valid: bool
    reason: str | None


@dataclass(frozen=True)
class SuggestionRecord:
    """Record of a designer's suggestion and its expected score; `ask_ms` is the duration of the designer's answer."""

    t_s: float
    run_id: str
    trial_id: int
    config: ConfigJson
    designer: str
    expected_score: float | None
    expected_std: float | None
    ask_ms: float


@dataclass(frozen=True)
class AdoptionRecord:
    """Record of the decision: the verdict, and pairs of typical step times (an empty list without a test).

    `speedup` is the challenger's; `ci_low` to `ci_high` is its two-sided interval at level `ci_level`.
    """

    t_s: float
    run_id: str
    pairs: list[Json]
    speedup: float | None
    ci_low: float | None
    ci_high: float | None
    verdict: str
    ci_level: float = OLD_CI_LEVEL


@dataclass(frozen=True)
class ResultRecord:
    """Last record of a run: the config in force from now on; `speedup` is its gain over the baseline, or null."""

    t_s: float
    run_id: str
    config: ConfigJson
    adopted: bool
    speedup: float | None
    cost_s: float
    payback_steps: int | None


@dataclass(frozen=True)
class EndRecord:
    """Last record of a run that ended before a decision; `verdict` describes the progress until then, and the reason.

    Such a run has no result, and a later run can resume it. After a result, `verdict` says why the decision was given
    up: the config in force is the baseline again.
    """

    t_s: float
    run_id: str
    verdict: str


Record: TypeAlias = RunRecord | SampleRecord | SuggestionRecord | AdoptionRecord | ResultRecord | EndRecord

RECORD_TYPES: Mapping[str, type[Record]] = types.MappingProxyType(
    {
        "run": RunRecord,
        "sample": SampleRecord,
        "suggestion": SuggestionRecord,
        "adoption": AdoptionRecord,
        "result": ResultRecord,
        "end": EndRecord,
    }
)
STEP_MS_KEYS = ("median", "mad", "mean")
ENUMS: Mapping[str, frozenset[str]] = types.MappingProxyType(
    {"phase": frozenset(p.value for p in Phase), "reason": frozenset(r.value for r in VoidReason)}
)


def finite(number: float | None) -> float | None:
    """Return the number, or None if JSON cannot represent it."""
    return number if number is not None and math.isfinite(number) else None


def sample_record(sample: Sample, *, t_s: float, run_id: str, window: int) -> SampleRecord:
    """Return the record of a sample; `window` is the number of the window in the run."""
    times = sample.step_times
    return SampleRecord(
        t_s=t_s,
        run_id=run_id,
        trial_id=sample.trial_id,
        window=window,
        phase=sample.phase.value,
        epoch=sample.epoch,
        config=sample.config.to_json(),
        score_bytes_per_s=finite(sample.score_bytes_per_s),
        step_ms={"median": finite(times.median), "mad": finite(times.mad), "mean": finite(times.mean)},
        steps=sample.steps,
        valid=sample.valid,
        reason=None if sample.reason is None else sample.reason.value,
    )


def record_to_json(record: Record) -> Json:
    """Return the JSON object of a record, with `type` first."""
    name = next(name for name, kind in RECORD_TYPES.items() if isinstance(record, kind))
    values = {field.name: getattr(record, field.name) for field in fields(record)}
    required = required_fields(name)
    return {"type": name, **{key: value for key, value in values.items() if value is not None or key in required}}


def record_from_json(data: object) -> Record:
    """Check an object against the schema and return its record; keys beyond the schema are ignored.

    Raises:
        RecordError: If the object is not a record.
    """
    if not isinstance(data, dict):
        raise RecordError("not a JSON object")
    kind = RECORD_TYPES.get(str(data.get("type")))
    if kind is None:
        raise RecordError(f"unknown record type {str(data.get('type'))[:40]!r}")
    fault = _fault_of(data)
    if fault is not None:
        raise RecordError(f"{'an' if kind in {AdoptionRecord, EndRecord} else 'a'} {data['type']} record {fault}")
    return kind(**{name: data[name] for name in _fields_of(data["type"]) if name in data})


def _fault_of(data: Json) -> str | None:
    """Return the fault of an object of a known type, or None if it is a record."""
    for name, hint in _fields_of(data["type"]).items():
        if name not in data:
            if name in required_fields(data["type"]):
                return f"without {name!r}"
        elif not _is_value_of(name, hint, data[name]):
            return f"with {name}={str(data[name])[:40]!r}"
    return None


@cache
def required_fields(type_name: str) -> tuple[str, ...]:
    """Return the fields that every record of a type has, also in older logs."""
    return tuple(field.name for field in fields(RECORD_TYPES[type_name]) if field.default is MISSING)


@cache
def _fields_of(type_name: str) -> dict[str, Any]:
    """Return the fields of a record type with their types; cached, because resolving them is slower than a check."""
    return get_type_hints(RECORD_TYPES[type_name])


def _is_value_of(name: str, hint: Any, value: object) -> bool:
    """Return whether a value has its field's type and, for an enumeration, is one of its words."""
    if not _matches(value, hint):
        return False
    if name == "step_ms":
        return isinstance(value, dict) and all(_is_step_ms(value.get(key, "")) for key in STEP_MS_KEYS)
    if name == "ci_level":
        return isinstance(value, int | float) and 0 < value < 1
    return value is None or name not in ENUMS or value in ENUMS[name]


def _is_step_ms(value: object) -> bool:
    if isinstance(value, (int, float)):
        return _is_scalar(value, float) and abs(value) <= MAX_STEP_MS
    return value is None


def _matches(value: object, hint: Any) -> bool:
    """Return whether a JSON value has the type of a record's field."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return any(_matches(value, choice) for choice in arguments)
    if origin is dict:
        return isinstance(value, dict) and all(_matches(item, arguments[1]) for item in value.values())
    if origin is list:
        return isinstance(value, list) and all(_matches(item, arguments[0]) for item in value)
    return hint is Any or _is_scalar(value, hint)


def _is_scalar(value: object, kind: type) -> bool:
    """Return whether a value has a plain type; an int is a valid float, a bool is no number, a huge int is invalid."""
    if isinstance(value, bool):
        return kind is bool
    if isinstance(value, int) and abs(value) > MAX_INTEGER:
        return False
    if kind is float:
        return isinstance(value, (int, float)) and math.isfinite(value)
    return isinstance(value, kind)
