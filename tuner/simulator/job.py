# SPDX-License-Identifier: Apache-2.0
"""Workload of a simulated rank: a forward pass, a backward pass that yields gradients, and an optimizer step."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ringtune.errors import ConfigError
from ringtune.tuner.engine_facts import ENGINE_FACTS

DTYPE_BYTES = (("float64", 8), ("float32", 4), ("float16", 2), ("bfloat16", 2))


@dataclass(frozen=True)
class Gradient:
    """Gradient tensor of a step.

    Attributes:
        name: Name under which the gradient is submitted.
        shape: Shape; empty for a scalar.
        work: Share of the backward pass that yields the gradient, in a unit common to all gradients of a job; None if
            unknown.
        dtype: Type of the elements. Tensors of different types are not fused.
    """

    name: str
    shape: tuple[int, ...]
    work: float | None = None
    dtype: str = "float32"

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """Size in memory, bytes."""
        return self.elements * dict(DTYPE_BYTES)[self.dtype]


@dataclass(frozen=True)
class SimulatedJob:
    """Workload of every rank in a step.

    Attributes:
        name: Name of the model.
        gradients: Gradients in the order in which the backward pass yields them, at least one.
        forward_ms: Duration of the forward pass while all ranks of the host compute, milliseconds.
        backward_ms: Duration of the backward pass under the same condition, milliseconds.
        optimizer_ms: Duration of the optimizer step, which follows the last allreduce, milliseconds.
        compute_threads: Cores that a rank's computing keeps busy; 0 if an accelerator computes.
        home_bytes: Smallest gradient in registered memory, bytes; None if no gradient is registered.
    """

    name: str
    gradients: tuple[Gradient, ...]
    forward_ms: float
    backward_ms: float
    optimizer_ms: float = 0.0
    compute_threads: float = 1.0
    home_bytes: int | None = ENGINE_FACTS.registered_min_bytes

    def __post_init__(self) -> None:
        """Refuse a job without gradients or time."""
        if not self.gradients:
            raise ConfigError(f"the job {self.name!r} has no gradients; give at least one")
        times = (self.forward_ms, self.backward_ms, self.optimizer_ms)
        if not all(math.isfinite(time) and time >= 0 for time in times) or sum(times) <= 0:
            raise ConfigError(f"the job {self.name!r} computes for {times} ms; give times of at least 0, one above it")
        if not (math.isfinite(self.compute_threads) and self.compute_threads >= 0):
            raise ConfigError(f"the job {self.name!r} computes on {self.compute_threads!r} cores; give at least 0")

    @cached_property
    def bytes(self) -> int:
        """Total size of all gradients, bytes."""
        return sum(gradient.bytes for gradient in self.gradients)

    @property
    def compute_ms(self) -> float:
        """Duration of a step without communication, milliseconds."""
        return self.forward_ms + self.backward_ms + self.optimizer_ms

    def is_registered(self, gradient: Gradient) -> bool:
        """Return whether a gradient is in registered memory."""
        return self.home_bytes is not None and gradient.bytes >= self.home_bytes

    @cached_property
    def ready_shares(self) -> tuple[float, ...]:
        """Share of the backward pass after which each gradient is ready; 1 for the last.

        The shares are derived from `work` if every gradient has it, else from size.
        """
        sizes = [float(gradient.elements) for gradient in self.gradients]
        works = [gradient.work for gradient in self.gradients]
        parts = sizes if any(work is None for work in works) else [work or 0.0 for work in works]
        total = sum(parts)
        if total <= 0:
            return tuple((number + 1) / len(parts) for number in range(len(parts)))
        shares, done = [], 0.0
        for part in parts:
            done += part
            shares.append(min(done / total, 1.0))
        return (*shares[:-1], 1.0)


def split_compute_ms(compute_ms: float) -> tuple[float, float, float]:
    """Return forward, backward and optimizer time in the ratio 1 : 2 : 0.1."""
    unit = compute_ms / 3.1
    return unit, 2.0 * unit, 0.1 * unit


def read_gradients(path: Path) -> tuple[Gradient, ...]:
    """Read a workload file in the format of `ringtune bench --workload`.

    Args:
        path: JSON file of an object with `dtype` and `tensors`, a list of objects with `name` and `shape`, in backward
            order.

    Raises:
        ConfigError: If the file cannot be read or has another format.
    """
    try:
        contents = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"the workload {path} cannot be read ({error}); give a JSON file of gradients") from error
    try:
        dtype = contents["dtype"]
        gradients = tuple(_gradient(tensor["name"], tensor["shape"], dtype) for tensor in contents["tensors"])
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise ConfigError(
            f"the workload {path} is no object with dtype and tensors that have names and shapes ({error!r}); "
            "give one as `ringtune bench --workload` takes it"
        ) from error
    return gradients


def _gradient(name: str, shape: Sequence[int], dtype: str) -> Gradient:
    if dtype not in dict(DTYPE_BYTES):
        raise ValueError(f"dtype {dtype!r}")
    if not all(type(extent) is int and extent > 0 for extent in shape):
        raise ValueError(f"shape {shape!r}")
    return Gradient(name, tuple(shape), dtype=dtype)
