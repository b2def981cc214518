# SPDX-License-Identifier: Apache-2.0
"""Horovod's environment variables, translated once: names, units, and ranges that a migrated job may exceed."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ringtune.errors import ConfigError
from ringtune.settings.parsing import TRUE_WORDS, BooleanReader, parse_number
from ringtune.settings.variables import LOG_LEVELS, knob_variable
from ringtune.system.near_names import nearest_slip
from ringtune.tuner.space.parameter_types import NumberParameter
from ringtune.tuner.space.parameters import ENGINE_PARAMETERS

WARMUP_NAME = "AUTOTUNE_WARMUP_STEPS"
HOROVOD_STEPS_PER_SAMPLE = 10  # Horovod's default, for the length of a warm-up that is given in samples
LIKENESS = 0.88  # least difflib ratio of a slip: two letters of 30, but not ..._ALLREDUCE for ..._ALLGATHER
_MAX_WARMUP_SAMPLES = 100  # times 10,000 steps, the longest sample, is the longest warm-up


@dataclass(frozen=True)
class Translation:
    """Meaning of Horovod's variables for ringtune.

    Attributes:
        values: Our variables' values, by our name.
        origins: Horovod's name behind each, by our name.
        notes: One sentence per value that had to be clamped or that does not act here.
    """

    values: Mapping[str, Any]
    origins: Mapping[str, str]
    notes: tuple[str, ...]


def translate(environ: Mapping[str, str]) -> Translation:
    """Translate every `HOROVOD_*` variable that names one of our settings; the others are not ours to judge.

    Raises:
        ConfigError: If a value is malformed.
    """
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    notes: list[str] = []
    for horovod_name, (our_name, read) in _READERS.items():
        text = environ.get(horovod_name, "").strip()
        if not text:
            continue
        try:
            value, note = read(text)
        except ValueError as error:
            raise ConfigError(
                f"{horovod_name}={environ[horovod_name]!r} cannot be read; use the form that Horovod documents"
            ) from error
        if note:
            notes.append(f"{horovod_name}={text}: {note}")
        if value is not None:
            values[our_name] = value
            origins[our_name] = horovod_name
    if WARMUP_NAME in values:  # in steps here
        values[WARMUP_NAME] *= values.get("AUTOTUNE_STEPS_PER_SAMPLE", HOROVOD_STEPS_PER_SAMPLE)
    return Translation(values, origins, tuple(notes))


def rivals(name: str) -> frozenset[str]:
    """Return the other variables that set the same value as a variable, in ringtune's spelling and in Horovod's.

    Args:
        name: One of ringtune's variables, or one of Horovod's that ringtune translates.
    """
    ours = _READERS[name][0] if name in _READERS else name
    same = {horovod_name for horovod_name, (target, _) in _READERS.items() if target == ours}
    return frozenset({ours, *same} - {name})


def misspelt(name: str) -> str:
    """Return which of the translated variables a name was probably meant to be; empty where it is none's slip.

    Args:
        name: Any variable's name; Horovod has many more than those that are translated, and other programs, too.
    """
    if name in _READERS or name in _OTHER_NAMES:
        return ""
    if not name.startswith("HOROVOD_"):
        return nearest_slip(name, _READERS)
    return next(iter(difflib.get_close_matches(name, _READERS, n=1, cutoff=LIKENESS)), "")


def _clamped(knob: str, number: float) -> tuple[Any, str]:
    """Return the nearest legal value of a number knob, and a note where it differs."""
    parameter = next(p for p in ENGINE_PARAMETERS if p.name == knob)
    if not isinstance(parameter, NumberParameter):
        raise TypeError(knob)
    value = number
    if number not in parameter.special:
        value = min(max(number, parameter.low), parameter.high)
    if value == number:
        return parameter.check(value), ""
    return parameter.check(value), f"outside {parameter.allowed}; {value:g} is used"


def _read_fusion_bytes(text: str) -> tuple[Any, str]:
    if not text.isdecimal():
        raise ValueError(text)
    return _clamped("fusion_bytes", int(text))


def _read_cycle_ms(text: str) -> tuple[Any, str]:
    return _clamped("cycle_ms", parse_number(text))


def _read_switch(text: str) -> tuple[Any, str]:
    return BooleanReader().parse(text), ""


def _read_cache_capacity(text: str) -> tuple[Any, str]:
    """Horovod's cache is a number of entries; ours grows as it needs, so only zero or not matters."""
    if not text.isdecimal():
        raise ValueError(text)
    return int(text) > 0, ""


def _read_seconds(text: str) -> tuple[Any, str]:
    seconds = parse_number(text)
    if seconds < 0:
        raise ValueError(text)
    if seconds == 0:
        return 604_800.0, "no limit is not possible here; 604800 s is used"
    value = min(max(seconds, 0.1), 604_800.0)
    return value, "" if value == seconds else f"{value:g} s is used"


def _read_warn_seconds(text: str) -> tuple[Any, str]:
    value, note = _read_seconds(text)
    return min(value, 86_400.0), note if value <= 86_400.0 else "86400 s is used"


def _read_stall_disable(text: str) -> tuple[Any, str]:
    if text.lower() in TRUE_WORDS:
        return 86_400.0, "the stall watch cannot be turned off; it warns after a day"
    return None, ""


def _read_samples(text: str) -> tuple[Any, str]:
    if not text.isdecimal():
        raise ValueError(text)
    value = min(max(int(text), 1), 10_000)
    return value, "" if value == int(text) else f"{value} is used"


def _read_text(text: str) -> tuple[Any, str]:
    return text, ""


def _read_timeline(text: str) -> tuple[Any, str]:
    """Horovod's word for a trace that the program starts itself; any other text is a file."""
    return (None if text.upper() == "DYNAMIC" else text), ""


def _read_log_level(text: str) -> tuple[Any, str]:
    """Horovod takes a level that it does not know for WARNING."""
    level = _LOG_LEVELS.get(text.lower(), "warning")
    return level, "" if text.lower() in _LOG_LEVELS else f"is no level of Horovod's; {level} is used"


def _read_warmup_samples(text: str) -> tuple[Any, str]:
    if not text.isdecimal():
        raise ValueError(text)
    value = min(int(text), _MAX_WARMUP_SAMPLES)
    return value, "" if value == int(text) else f"{value} is used"


_LOG_LEVELS = {"trace": "debug", **{level: level for level in LOG_LEVELS}, "fatal": "error"}


_READERS = {
    "HOROVOD_FUSION_THRESHOLD": (knob_variable("fusion_bytes"), _read_fusion_bytes),
    "HOROVOD_CYCLE_TIME": (knob_variable("cycle_ms"), _read_cycle_ms),
    "HOROVOD_CACHE_CAPACITY": (knob_variable("response_cache"), _read_cache_capacity),
    "HOROVOD_HIERARCHICAL_ALLREDUCE": (knob_variable("hierarchical_allreduce"), _read_switch),
    "HOROVOD_HIERARCHICAL_ALLGATHER": (knob_variable("hierarchical_allgather"), _read_switch),
    "HOROVOD_AUTOTUNE": ("AUTOTUNE", _read_switch),
    "HOROVOD_AUTOTUNE_LOG": ("AUTOTUNE_LOG", _read_text),
    "HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES": ("AUTOTUNE_MAX_SAMPLES", _read_samples),
    "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE": ("AUTOTUNE_STEPS_PER_SAMPLE", _read_samples),
    "HOROVOD_AUTOTUNE_WARMUP_SAMPLES": (WARMUP_NAME, _read_warmup_samples),
    "HOROVOD_LOG_LEVEL": ("RINGTUNE_LOG_LEVEL", _read_log_level),
    "HOROVOD_TIMELINE": ("RINGTUNE_TIMELINE", _read_timeline),
    "HOROVOD_TIMELINE_MARK_CYCLES": ("RINGTUNE_TIMELINE_MARK_CYCLES", _read_switch),
    "HOROVOD_STALL_CHECK_TIME_SECONDS": ("RINGTUNE_STALL_WARN_S", _read_warn_seconds),
    "HOROVOD_STALL_CHECK_DISABLE": ("RINGTUNE_STALL_WARN_S", _read_stall_disable),  # wins over the line above
    "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": ("RINGTUNE_TIMEOUT_S", _read_seconds),
}

_OTHER_NAMES = frozenset(
    {
        "HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE",
        "HOROVOD_CCL_CACHE",
        "HOROVOD_CPU_OPERATIONS",
        "HOROVOD_CROSS_RANK",
        "HOROVOD_CROSS_SIZE",
        "HOROVOD_ELASTIC_TIMEOUT",
        "HOROVOD_GLOO_TIMEOUT_SECONDS",
        "HOROVOD_GPU_ALLGATHER",
        "HOROVOD_GPU_ALLREDUCE",
        "HOROVOD_LOCAL_RANK",
        "HOROVOD_LOCAL_SIZE",
        "HOROVOD_LOG_HIDE_TIME",
        "HOROVOD_LOG_TIMESTAMP",
        "HOROVOD_MPI_THREADS_DISABLE",
        "HOROVOD_SPARK_START_TIMEOUT",
        "HOROVOD_START_TIMEOUT",
        "HOROVOD_THREAD_AFFINITY",
    }
)
"""Variables of Horovod's that have no effect here and resemble those that have one."""
