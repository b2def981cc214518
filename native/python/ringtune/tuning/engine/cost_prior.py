# SPDX-License-Identifier: Apache-2.0
"""The cost model as a job's prior: its gradients, its layout, and the allreduces that were timed at its start."""

from collections.abc import Mapping, Sequence
from math import prod

from ringtune.identity.gradient_set import Signature
from ringtune.tuner import Prior
from ringtune.tuner.priors.cost_model import CostModelPrior, EngineCosts, JobShape, fitted_costs
from ringtune.world.algorithm_tables.table import CallTime

MIN_SIZES = 2
"""Least number of message sizes for a fit: latency and bandwidth are two unknowns."""
ELEMENT_BYTES: Mapping[str, int] = {
    "bool": 1,
    "uint8": 1,
    "int8": 1,
    "float16": 2,
    "bfloat16": 2,
    "int32": 4,
    "float32": 4,
    "int64": 8,
    "float64": 8,
}


def job_prior(
    gradients: Mapping[Signature, int],
    ranks_per_host: Sequence[int],
    calls: Sequence[CallTime],
    *,
    is_hierarchical: bool,
    link_rates: Sequence[float] = (),
) -> Prior | None:
    """Return the cost model of a job's steps; None for steps without gradients.

    Args:
        gradients: Number of gradients of a step, by dtype and shape.
        ranks_per_host: Number of ranks on each host.
        calls: Times of allreduces at the start of the job; without two sizes, usual constants are taken.
        is_hierarchical: True where those allreduces reduced inside each host first.
        link_rates: Rate of each host's link, in any unit; empty if they were not measured.
    """
    sizes = gradient_bytes(gradients)
    if not sizes or sum(ranks_per_host) == 1:
        return None
    job = JobShape(sizes, tuple(ranks_per_host), link_rates=tuple(link_rates))
    if len({call.size_bytes for call in calls}) < MIN_SIZES:
        return CostModelPrior(job, EngineCosts())
    call_bytes, call_s = [call.size_bytes for call in calls], [call.call_s for call in calls]
    costs = fitted_costs(call_bytes, call_s, ranks_per_host, is_hierarchical=is_hierarchical)
    return CostModelPrior(job, costs)


def gradient_bytes(gradients: Mapping[Signature, int]) -> tuple[int, ...]:
    """Return the bytes of each gradient that has an element."""
    sizes = ((ELEMENT_BYTES[dtype] * prod(shape), count) for (dtype, shape), count in gradients.items())
    return tuple(size for size, count in sizes if size > 0 for _ in range(count))
