# SPDX-License-Identifier: Apache-2.0
"""Jobs of models: by name, with the gradients of `architectures`, or from a file that lists the gradients."""

from pathlib import Path

from ringtune.errors import ConfigError
from ringtune.tuner.engine_facts import ENGINE_FACTS

from .architectures import MODELS
from .job import Gradient, SimulatedJob, read_gradients, split_compute_ms

SAMPLES = 32
"""Samples of a rank's batch for the estimate of the compute time."""
OPERATIONS_PER_S = 10e12
"""Operations per second of an accelerator in training, for the same estimate; well below its nominal peak."""
OPERATIONS_PER_WORK = 6.0
"""Operations per unit of work: a multiplication and an addition, once forwards and twice backwards."""


def model_job(
    model: str,
    compute_ms: float,
    *,
    compute_threads: float = 1.0,
    home_bytes: int | None = ENGINE_FACTS.registered_min_bytes,
) -> SimulatedJob:
    """Return the job of a model of `architectures`.

    Args:
        model: Name of the model in `MODELS`.
        compute_ms: Duration of a step without communication, milliseconds.
        compute_threads: Cores that a rank's computing keeps busy; 0 if an accelerator computes.
        home_bytes: Smallest gradient in registered memory, bytes; None if no gradient is registered.

    Raises:
        ConfigError: If there is no such model.
    """
    return _job(model, _gradients(model), compute_ms, compute_threads, home_bytes)


def described_job(
    model: str,
    compute_ms: float | None,
    *,
    compute_threads: float = 0.0,
    home_bytes: int | None = ENGINE_FACTS.registered_min_bytes,
) -> SimulatedJob:
    """Return the job for a user's description.

    Args:
        model: Name in `MODELS`, or path of a workload file (.json) in the format of `ringtune bench --workload`.
        compute_ms: Duration of a step without communication, milliseconds; None estimates it for 32 samples on an
            accelerator of 10^13 operations a second.
        compute_threads: Cores that a rank's computing keeps busy; 0 if an accelerator computes.
        home_bytes: Smallest gradient in registered memory, bytes; None if no gradient is registered.

    Raises:
        ConfigError: If there is no such model or file, or if a workload file lacks the time.
    """
    if not model.endswith(".json"):
        time_ms = _estimated_ms(model) if compute_ms is None else compute_ms
        return model_job(model, time_ms, compute_threads=compute_threads, home_bytes=home_bytes)
    gradients = read_gradients(Path(model))
    if compute_ms is None:
        raise ConfigError(f"{model} does not say how long a step computes; give its time without communication in ms")
    return _job(Path(model).stem, gradients, compute_ms, compute_threads, home_bytes)


def _estimated_ms(model: str) -> float:
    gradients = _gradients(model)
    work = sum(gradient.work or 0.0 for gradient in gradients)
    return OPERATIONS_PER_WORK * work * SAMPLES / OPERATIONS_PER_S * 1e3


def _gradients(model: str) -> tuple[Gradient, ...]:
    if model not in MODELS:
        raise ConfigError(
            f"there is no model {model!r}; there are {', '.join(MODELS)}, or give a workload file (.json)"
        )
    return MODELS[model]()


def _job(
    name: str, gradients: tuple[Gradient, ...], compute_ms: float, compute_threads: float, home_bytes: int | None
) -> SimulatedJob:
    forward_ms, backward_ms, optimizer_ms = split_compute_ms(compute_ms)
    return SimulatedJob(name, gradients, forward_ms, backward_ms, optimizer_ms, compute_threads, home_bytes)
