# SPDX-License-Identifier: Apache-2.0
"""The table of the environment variables: name, reader, default."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from ringtune.settings.parsing import (
    BooleanReader,
    ChoiceReader,
    ChoicesReader,
    IntegerReader,
    KnobListReader,
    KnobReader,
    NameListReader,
    NameReader,
    Reader,
    SecondsReader,
    SwitchReader,
    TextReader,
)
from ringtune.system.listen_address import ListenAddressReader
from ringtune.tuner.policy.settings import DEFAULT_MAX_SECONDS, MAX_SECONDS, MAX_STEPS
from ringtune.tuner.space.parameters import AUTO, WIRE, engine_parameters

MAX_TAGS = 20
MAX_INTERFACES = 16
LOG_LEVELS = ("debug", "info", "warning", "error")
TRANSPORTS = ("auto", "shm", "tcp", "mpi")
GPU_OPERATIONS = ("auto", "nccl", "host")
SUBSTITUTED_TORCH_BACKENDS = ("gloo",)

TORCH_BACKEND_NAME = "RINGTUNE_TORCH_BACKEND"
"""Read on each rank while it imports torch."""

SLIPS_TOLD_NAME = "RINGTUNE_SLIPS_TOLD"
"""Set by the launcher: names of misspelt variables that it has told, so that rank 0 does not repeat them."""
BOOTSTRAP_NAMES = (
    "RINGTUNE_RANK",
    "RINGTUNE_WORLD_SIZE",
    "RINGTUNE_RENDEZVOUS",
    "RINGTUNE_JOB_KEY",
    "RINGTUNE_JOB_DIGEST",
    "RINGTUNE_WORKER_ID",
    "RINGTUNE_TERMINAL_COLUMNS",
    "RINGTUNE_TLS",
    "RINGTUNE_TLS_CERT",
    "RINGTUNE_TLS_KEY",
    "RINGTUNE_TLS_CA",
    SLIPS_TOLD_NAME,
)
"""Read in `bootstrap`: they differ from rank to rank, are secret, or come from the launcher."""
PLUGIN_NAMES = ("RINGTUNE_NCCL_TABLE",)
"""Read by NCCL's tuner plugin, in C."""
LAUNCH_NAMES = ("RINGTUNE_LAUNCH_SLOT",)
"""Set by `ringtune tune`, and read by the user's command alone."""
SERVICE_PREFIX = "RINGTUNE_SERVICE_"
"""Prefix of variables that set `ringtune serve`; no job reads them."""


@dataclass(frozen=True)
class Variable:
    """One variable that holds for the whole job.

    Attributes:
        name: Its name in the environment.
        reader: Reads its text.
        default: Its value when it is not set, as the reader would return it.
    """

    name: str
    reader: Reader
    default: Any


def knob_variable(knob: str) -> str:
    """Return the variable that fixes a knob."""
    return f"RINGTUNE_{knob.upper()}"


def job_variables(algorithms: Collection[str]) -> dict[str, Variable]:
    """Return the job-wide variables by name.

    Args:
        algorithms: Names in the engine's allreduce registry, without `auto`.
    """
    knobs = {parameter.name: KnobReader(parameter) for parameter in engine_parameters(algorithms)}
    table = (
        Variable("AUTOTUNE", SwitchReader(AUTO), default=False),
        Variable("AUTOTUNE_LOG", TextReader(), default=None),
        Variable("AUTOTUNE_MODEL", TextReader(), default=None),
        Variable("AUTOTUNE_JOB_NAME", NameReader(), default=None),
        Variable("AUTOTUNE_TAGS", NameListReader(MAX_TAGS), default=[]),
        Variable("AUTOTUNE_COMMIT", NameReader(100), default=None),
        Variable("AUTOTUNE_MAX_SAMPLES", IntegerReader(1, 10_000), default=None),
        Variable("AUTOTUNE_MAX_STEPS", IntegerReader(1, MAX_STEPS), default=None),
        Variable("AUTOTUNE_MAX_SECONDS", SecondsReader(1.0, MAX_SECONDS), default=DEFAULT_MAX_SECONDS),
        Variable("AUTOTUNE_WARMUP_STEPS", IntegerReader(0, 1_000_000, ("auto",)), default=None),
        Variable("AUTOTUNE_STEPS_PER_SAMPLE", IntegerReader(1, 1_000_000, ("auto",)), default=None),
        Variable("AUTOTUNE_ALLOW", ChoicesReader((WIRE,)), default=[]),
        Variable("AUTOTUNE_SEED", IntegerReader(0, 2**32 - 1), default=0),
        Variable("AUTOTUNE_BASELINE", KnobListReader(knobs), default=None),
        Variable("RINGTUNE_LOG_LEVEL", ChoiceReader(LOG_LEVELS), default="warning"),
        Variable("RINGTUNE_TRANSPORT", ChoiceReader(TRANSPORTS), default="auto"),
        Variable("RINGTUNE_INTERFACES", NameListReader(MAX_INTERFACES), default=[]),
        Variable("RINGTUNE_GPU_OPERATIONS", ChoiceReader(GPU_OPERATIONS), default="auto"),
        Variable(TORCH_BACKEND_NAME, ChoiceReader(SUBSTITUTED_TORCH_BACKENDS), default=None),
        Variable("RINGTUNE_TIMELINE", TextReader(), default=None),
        Variable("RINGTUNE_TIMELINE_MARK_CYCLES", BooleanReader(), default=False),
        Variable("RINGTUNE_STALL_WARN_S", SecondsReader(0.1, 86_400.0), default=60.0),
        Variable("RINGTUNE_TIMEOUT_S", SecondsReader(0.1, 604_800.0), default=600.0),
        Variable("RINGTUNE_HARDWARE", TextReader(), default=None),
        Variable("RINGTUNE_HARDWARE_NAME", NameReader(), default=None),
        Variable("RINGTUNE_ALGORITHM_TABLE", TextReader(), default="auto"),
        Variable("AUTOTUNE_CACHE", TextReader(), default=None),
        Variable("AUTOTUNE_LOCK", TextReader(), default=None),
        Variable("AUTOTUNE_SERVICE_URL", TextReader(), default=None),
        Variable("AUTOTUNE_SERVICE_TOKEN", TextReader(), default=None),
        Variable("RINGTUNE_METRICS_PORT", ListenAddressReader(), default=None),
        *(Variable(knob_variable(name), reader, default=None) for name, reader in knobs.items()),
    )
    return {variable.name: variable for variable in table}
