# SPDX-License-Identifier: Apache-2.0
"""Neighbours: the distance of another study, and the expected gains of its configs here.

| term of the distance | when |
|---|---|
| abs(log2(ranks / ranks')) + abs(log2(hosts / hosts')) | always |
| 1 | one of the two has one host, the other several: other links carry the data |
| 4 | the hardware differs |
| 2 + abs(log2(bytes / bytes')) + abs(log2(tensors / tensors')) / 2 | the model differs |

The model or the hardware must be the same. A model whose bytes and tensors nobody told is not comparable with another.
Beyond MAX_DISTANCE a study says nothing.

At another layout the measured gain of a config is corrected by what the cost model says that the layouts differ:
gain = measured there + (expected here - expected there), each as ln(baseline's step / config's step), with the baseline
that the gain was measured over. A rank computes as much here as there; where the model's usual constants expect more of
communication alone than the default's whole step took, machine and links are as much quicker in both.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ringtune.system.counts import counted
from ringtune.tuner import Config, SearchSpace, Value
from ringtune.tuner.priors.cost_model import EngineCosts, JobShape, expected_step_s, explained
from ringtune.tuner.space.parameters import default_config, pinned_by_layout

ENGINE_TARGET = "ringtune"
MAX_DISTANCE = 8.0
ONE_HOST_OR_SEVERAL = 1.0
OTHER_HARDWARE = 4.0
OTHER_MODEL = 2.0
MS_TO_S = 1e-3
UNMEASURED_STEP_MS = 100.0
"""A step of the default where nobody measured it."""


class StudyPlace(Protocol):
    """The parts of a key that tell studies of one target apart; `layout` is the ranks per host, sorted."""

    @property
    def hardware(self) -> str:
        """Fingerprint of the hosts."""

    @property
    def model(self) -> str:
        """Fingerprint of the tensor set."""

    @property
    def layout(self) -> Sequence[int]:
        """Ranks per host, sorted."""


@dataclass(frozen=True)
class TensorSet:
    """The tensors of steps, as far as they are known: bytes in all, and the number of tensors."""

    step_bytes: int
    tensors: int


def distance(
    asked: StudyPlace, found: StudyPlace, asked_tensors: TensorSet | None, found_tensors: TensorSet | None
) -> float:
    """Return the distance, infinite where nothing can be said.

    Args:
        asked: The key that is asked for.
        found: The other study's.
        asked_tensors: Tensors of the requested model, if known.
        found_tensors: Tensors of the other study's model, if known.
    """
    is_same_model, is_same_hardware = asked.model == found.model, asked.hardware == found.hardware
    if not (is_same_model or is_same_hardware):
        return math.inf
    total = _octaves(sum(asked.layout), sum(found.layout)) + _octaves(len(asked.layout), len(found.layout))
    total += ONE_HOST_OR_SEVERAL * ((len(asked.layout) > 1) != (len(found.layout) > 1))
    total += 0.0 if is_same_hardware else OTHER_HARDWARE
    if not is_same_model:
        if asked_tensors is None or found_tensors is None:
            return math.inf
        total += OTHER_MODEL + _octaves(asked_tensors.step_bytes, found_tensors.step_bytes)
        total += 0.5 * _octaves(asked_tensors.tensors, found_tensors.tensors)
    return total if total <= MAX_DISTANCE else math.inf


def not_measured(asked: StudyPlace, found: StudyPlace) -> str:
    """Return in words what no job has measured, and what is nearest to it."""
    parts = []
    if tuple(asked.layout) != tuple(found.layout):
        has_as_many = sum(asked.layout) == sum(found.layout)
        wanted, there = (_ranks(key, with_hosts=has_as_many) for key in (asked, found))
        parts.append(f"no job with {wanted}; nearest: {there}")
    if asked.hardware != found.hardware:
        parts.append("measured on other hardware")
    if asked.model != found.model:
        parts.append("measured with another model of a similar size")
    return ", ".join(parts)


def _ranks(key: StudyPlace, *, with_hosts: bool) -> str:
    ranks = counted(sum(key.layout), "rank")
    return f"{ranks} on {counted(len(key.layout), 'host')}" if with_hosts else ranks


def adapted(config: Config, layout: Sequence[int], target: str) -> Config:
    """Return a config with the engine's knobs that cannot act in a layout at the value that they have there."""
    pinned: Mapping[str, Value] = pinned_by_layout(layout) if target == ENGINE_TARGET else {}
    return config.replace({name: value for name, value in pinned.items() if name in config})


def corrected_gains(
    configs: Sequence[Config],
    gains: Sequence[float],
    *,
    gradient_bytes: Sequence[int],
    layouts: tuple[Sequence[int], Sequence[int]],
    baselines: Sequence[Config],
    default_step_ms: float | None,
) -> tuple[float, ...]:
    """Return what configs of the engine should gain at another layout.

    Args:
        configs: Configs as they were measured; here they run as this layout adapts them.
        gains: ln(baseline's step / config's step), measured at the first layout.
        gradient_bytes: Bytes of each tensor of a step; without any the gains stay as they are.
        layouts: Ranks per host, where it was measured and where it is asked for.
        baselines: The baseline of each gain.
        default_step_ms: The default's median step at the first layout, if known.
    """
    if not gradient_bytes or layouts[0] == layouts[1] or any(sum(layout) == 1 for layout in layouts):
        return tuple(gains)
    jobs = [JobShape(tuple(gradient_bytes), tuple(layout)) for layout in layouts]
    step_s = MS_TO_S * (UNMEASURED_STEP_MS if default_step_ms is None else default_step_ms)
    costs, compute_s = explained(jobs[0], EngineCosts(), default_config(layouts[0]), step_s)
    measured = [*baselines, *configs]
    run = (measured, [adapted(config, layouts[1], ENGINE_TARGET) for config in measured])
    there, here = (
        np.log(expected_step_s(job, costs, compute_s, run_there)) for job, run_there in zip(jobs, run, strict=True)
    )
    count = len(baselines)
    change = (here[:count] - here[count:]) - (there[:count] - there[count:])
    return tuple(gain + float(difference) for gain, difference in zip(gains, change, strict=True))


def is_of_engine(space: SearchSpace) -> bool:
    """Tell whether the cost model knows the knobs of a space."""
    return {parameter.name for parameter in space.parameters} == set(default_config())


def _octaves(first: float, second: float) -> float:
    return abs(math.log2(first / second))
