# SPDX-License-Identifier: Apache-2.0
"""Study keys, and the distance between two studies: the one rule of which earlier study is nearest.

A job's priors, `ringtune recommend` and the service order studies by it.

| term of the distance | when |
|---|---|
| abs(log2(ranks / ranks')) + abs(log2(hosts / hosts')) | always |
| 1 | one of the two has one host, the other several: other links carry the data |
| 4 | the hardware differs |
| 2 + abs(log2(bytes / bytes')) + abs(log2(tensors / tensors')) / 2 | the model differs |
| 2 + 16 | the model differs, and the tensors of one of the two are unknown |

The model or the hardware must be the same, and the config must mean the same. Beyond MAX_DISTANCE a study recommends
nothing; as a prior of a job it may still serve, since the job's own samples judge it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MAX_DISTANCE = 8.0
ONE_HOST_OR_SEVERAL = 1.0
OTHER_HARDWARE = 4.0
OTHER_MODEL = 2.0
UNKNOWN_TENSORS = 16.0
"""In place of the tensors' part: beyond MAX_DISTANCE, so that no model of unknown size is recommended for another."""


@dataclass(frozen=True)
class StudyKey:
    """The key under which measurements are comparable.

    Attributes:
        hardware: SHA-256 over the hosts' declared facts, hex.
        model: SHA-256 over the tensor set, hex.
        layout: Ranks per host, sorted.
        target: The tuned target.
        surface_version: Raised by the engine only when old measurements no longer apply.
    """

    hardware: str
    model: str
    layout: tuple[int, ...]
    target: str = "ringtune"
    surface_version: int = 1

    @classmethod
    def from_json(cls, key: Mapping[str, Any]) -> "StudyKey":
        """Return the key of a log's run or of a job's settings; a layout that cannot be is empty.

        Args:
            key: The `key` of `RunSettings`; another job may have written it.
        """
        layout, version = key.get("layout"), key.get("surface_version", cls.surface_version)
        is_layout = isinstance(layout, list | tuple) and all(type(ranks) is int and ranks > 0 for ranks in layout)
        return cls(
            str(key.get("hardware", "")),
            str(key.get("model", "")),
            tuple(sorted(layout)) if is_layout and layout is not None else (),
            str(key.get("target", cls.target)),
            version if isinstance(version, int) else 0,
        )

    @property
    def world_size(self) -> int:
        """The number of ranks."""
        return sum(self.layout)

    @property
    def surface(self) -> tuple[str, int]:
        """The meaning of a config."""
        return self.target, self.surface_version


@dataclass(frozen=True)
class TensorSet:
    """The tensors of steps, as far as they are known: bytes in all, and the number of tensors."""

    step_bytes: int
    tensors: int

    @classmethod
    def of_sizes(cls, tensor_bytes: Sequence[int]) -> "TensorSet | None":
        """Return the set of tensors of these sizes; None without any."""
        return cls(sum(tensor_bytes), len(tensor_bytes)) if tensor_bytes else None


def distance(
    asked: StudyKey, found: StudyKey, asked_tensors: TensorSet | None = None, found_tensors: TensorSet | None = None
) -> float:
    """Return the distance, infinite between studies that have nothing in common.

    Args:
        asked: The key that is asked for.
        found: The other study's.
        asked_tensors: Tensors of the requested model, if known.
        found_tensors: Tensors of the other study's model, if known.
    """
    is_same_model, is_same_hardware = asked.model == found.model, asked.hardware == found.hardware
    if asked.surface != found.surface or not (is_same_model or is_same_hardware):
        return math.inf
    total = _octaves(asked.world_size, found.world_size) + _octaves(len(asked.layout), len(found.layout))
    total += ONE_HOST_OR_SEVERAL * ((len(asked.layout) > 1) != (len(found.layout) > 1))
    total += 0.0 if is_same_hardware else OTHER_HARDWARE
    return total if is_same_model else total + OTHER_MODEL + _tensors_part(asked_tensors, found_tensors)


def _tensors_part(asked: TensorSet | None, found: TensorSet | None) -> float:
    if asked is None or found is None:
        return UNKNOWN_TENSORS
    return _octaves(asked.step_bytes, found.step_bytes) + 0.5 * _octaves(asked.tensors, found.tensors)


def _octaves(first: float, second: float) -> float:
    if first == second:
        return 0.0
    return abs(math.log2(first / second)) if first and second else math.inf
