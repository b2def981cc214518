# SPDX-License-Identifier: Apache-2.0
"""Neighbours: the difference between an unmeasured key and the nearest one, and the expected gains of its configs here.

At another layout the measured gain of a config is corrected by the cost model's difference between the layouts:
gain = measured there + (expected here - expected there), each as ln(baseline's step / config's step), with the baseline
that the gain was measured over. A rank computes as much here as there; where the model's usual constants expect more of
communication alone than the default's whole step took, machine and links are as much quicker in both.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from ringtune.system.counts import counted
from ringtune.tuner import Config, SearchSpace, Value
from ringtune.tuner.priors.cost_model import EngineCosts, JobShape, expected_step_s, explained
from ringtune.tuner.priors.relevance import StudyKey
from ringtune.tuner.space.parameters import default_config, pinned_by_layout

ENGINE_TARGET = "ringtune"
MS_TO_S = 1e-3
UNMEASURED_STEP_MS = 100.0
"""Assumed step of the default where it was not measured."""


def not_measured(asked: StudyKey, found: StudyKey) -> str:
    """Return in words the unmeasured part of a key, and the nearest measured one."""
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


def _ranks(key: StudyKey, *, with_hosts: bool) -> str:
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
    """Return the expected gains of the engine's configs at another layout.

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
