# SPDX-License-Identifier: Apache-2.0
"""Gradient workloads: the tensors of one training step, from a file into every contestant's arguments.

A file is JSON: an object with `name`, `dtype` (float32) and `tensors`, a list of objects with `name` and `shape`, in
the order in which a backward pass completes the gradients.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ringtune.errors import ConfigError
from ringtune.system.printable import shown

ELEMENT_BYTES = 4
MAX_FAULT_CHARACTERS = 500  # limit of a fault's description: a value may be a whole file
# The kernel takes no argument above 128 KiB; each of a launcher's is one of the contestant's.
MAX_ARGUMENT_BYTES = 120_000
_NAME = re.compile(r"[\w.+-]+")
_TENSOR_NAME = re.compile(r"[^,\0]+")


@dataclass(frozen=True)
class WorkloadGradient:
    """One tensor of a step.

    Attributes:
        name: Key that matches the tensor across ranks.
        elements: Its float32 elements.
    """

    name: str
    elements: int


@dataclass(frozen=True)
class Workload:
    """The gradients of one step, in the order in which they are submitted.

    Attributes:
        name: Key of its rows.
        gradients: Gradients, at least one; their names differ.
    """

    name: str
    gradients: tuple[WorkloadGradient, ...]

    @property
    def bytes(self) -> int:
        """Size of all gradients together."""
        return ELEMENT_BYTES * sum(gradient.elements for gradient in self.gradients)

    def argument(self) -> str:
        """Return the argument that describes the workload: NAME:TENSOR=BYTES,..."""
        tensors = ",".join(f"{gradient.name}={ELEMENT_BYTES * gradient.elements}" for gradient in self.gradients)
        return f"{self.name}:{tensors}"

    @classmethod
    def from_argument(cls, argument: str) -> "Workload":
        """Return the workload that an argument describes."""
        name, _, tensors = argument.partition(":")
        parts = [tensor.rpartition("=") for tensor in tensors.split(",")]
        return cls(name, tuple(WorkloadGradient(tensor, int(size) // ELEMENT_BYTES) for tensor, _, size in parts))


def read_workloads(paths: Sequence[Path]) -> tuple[Workload, ...]:
    """Read the files that `--workload` names.

    Raises:
        ConfigError: If one cannot be read or measured, or two have one name.
    """
    by_name: dict[str, Path] = {}
    workloads = []
    for path in paths:
        workload = read_workload(path)
        if workload.name in by_name:
            raise ConfigError(
                f"--workload {path} and {by_name[workload.name]} are both named {workload.name!r}; name one differently"
            )
        by_name[workload.name] = path
        workloads.append(workload)
    return tuple(workloads)


def read_workload(path: Path, option: str = "--workload") -> Workload:
    """Read a file.

    Args:
        path: The file.
        option: The option that names it, for messages.

    Raises:
        ConfigError: If it cannot be read, is no workload, or is one that cannot be measured; names the tensor.
    """
    try:
        contents = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{option} {path} cannot be read ({error.strerror}); give a file of gradients") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{option} {path} is no JSON ({error}); give a file of gradients") from error
    try:
        return _workload_of(contents)
    except (ValueError, KeyError, RecursionError) as error:
        reason = shown(f"{error} is missing" if isinstance(error, KeyError) else str(error), MAX_FAULT_CHARACTERS)
        raise ConfigError(
            f"{option} {path}: {reason}; it takes an object with name, dtype float32, and tensors, a list of objects "
            "with name and shape"
        ) from error


def _workload_of(contents: Mapping[str, Any]) -> Workload:
    """Return a file's workload; an error's message has the fault."""
    _require(isinstance(contents, dict), f"it holds a {type(contents).__name__}")
    name, dtype, tensors = contents["name"], contents["dtype"], contents["tensors"]
    _require(_is_text(name, _NAME), f"the name {name!r} is not made of letters, digits and _.+-")
    _require(dtype == "float32", f"the dtype is {dtype!r}")
    _require(isinstance(tensors, list) and tensors != [], "there are no tensors")
    workload = Workload(name, tuple(_gradient_of(tensor) for tensor in tensors))
    _require(len({gradient.name for gradient in workload.gradients}) == len(tensors), "two tensors have one name")
    length = len(workload.argument().encode())
    _require(
        length <= MAX_ARGUMENT_BYTES,
        f"{len(tensors)} tensors and their names take {length} bytes, above {MAX_ARGUMENT_BYTES}",
    )
    return workload


def _gradient_of(tensor: Mapping[str, Any]) -> WorkloadGradient:
    _require(isinstance(tensor, dict), f"the tensor {tensor!r} is no object")
    name, shape = tensor["name"], tensor["shape"]
    _require(_is_text(name, _TENSOR_NAME), f"the tensor name {name!r} is empty or has a comma")
    is_shape = isinstance(shape, list) and all(type(extent) is int and extent > 0 for extent in shape)
    _require(is_shape, f"the shape {shape!r} of {name!r} is no list of positive numbers")
    return WorkloadGradient(name, math.prod(shape))


def _is_text(value: object, pattern: re.Pattern[str]) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None


def _require(is_right: bool, otherwise: str) -> None:
    if not is_right:
        raise ValueError(otherwise)
