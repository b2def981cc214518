# SPDX-License-Identifier: Apache-2.0
"""The step in closed form: how many batches, how many messages in each, what they cost, and how much backward hides.

| symbol | meaning |
|---|---|
| B | duration of backward, in which tensors become ready evenly |
| S, N | bytes and tensors of a step |
| F | `fusion_bytes` |
| T | time between two batches: `cycle_ms`, or the time in which F bytes become ready |
| k | batches of a step, B / T |
| C | what a batch costs: negotiation, its tensors, its messages |
| m | bytes of a message |
| h, p | hosts, ranks |

The communication thread takes batch after batch: the last one begins when backward ends, or when those before are
through, so that the step's tensors are reduced at max(B + C, T + k C). Between hosts a message takes 2 (p - 1) steps of
a ring over all ranks, or 2 (h - 1) of one over the hosts (Patarasu & Yuan 2009, "Bandwidth optimal all-reduce
algorithms").
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ringtune.tuner.config import Config
from ringtune.tuner.parameters import AUTO, KIB

from .costs import EngineCosts

Array = NDArray[np.float64]

BACKWARD_SHARE = 2 / 3
"""Of a step's computing: backward has about twice the work of forward."""
AUTO_CHUNK_BYTES = 256 * KIB
CACHE_BYTES = 1024 * KIB
"""Chunks beyond this leave the cache between being written and being read."""
OUT_OF_CACHE = 1.3
"""What a byte of such a chunk costs, in those of a smaller one."""


@dataclass(frozen=True)
class JobShape:
    """What a step reduces, and where.

    Attributes:
        gradient_bytes: Of each tensor of a step, at least one.
        ranks_per_host: Number of ranks on each host.
        is_crowded: Whether every core computes, so that backward waits for what communication computes inside a host.
    """

    gradient_bytes: tuple[int, ...]
    ranks_per_host: tuple[int, ...]
    is_crowded: bool = True

    @property
    def world_size(self) -> int:
        """The number of ranks."""
        return sum(self.ranks_per_host)


@dataclass(frozen=True)
class _Knobs:
    """The configs' values by knob, shape (m,) each; `fusion_bytes` 0 is off."""

    fusion_bytes: Array
    cycle_s: Array
    is_hierarchical: Array
    is_cached: Array
    chunk_bytes: Array

    @classmethod
    def of(cls, configs: Sequence[Config]) -> "_Knobs":
        chunks = [AUTO_CHUNK_BYTES if c["chunk_bytes"] == AUTO else float(c["chunk_bytes"]) for c in configs]
        return cls(
            np.array([float(config["fusion_bytes"]) for config in configs]),
            np.array([float(config["cycle_ms"]) * 1e-3 for config in configs]),
            np.array([bool(config["hierarchical_allreduce"]) for config in configs], dtype=float),
            np.array([bool(config["response_cache"]) for config in configs], dtype=float),
            np.array(chunks, dtype=float),
        )


def expected_step_s(job: JobShape, costs: EngineCosts, compute_s: float, configs: Sequence[Config]) -> Array:
    """Return what a step should take under each config, seconds, shape (m,).

    Args:
        job: What is reduced, and where.
        costs: What that costs.
        compute_s: Forward, backward and the optimizer without communication, seconds, above zero.
        configs: m configs of the engine.
    """
    knobs = _Knobs.of(configs)
    total_bytes, tensors = float(sum(job.gradient_bytes)), float(len(job.gradient_bytes))
    backward_s = BACKWARD_SHARE * compute_s
    gather_s = backward_s * np.where(knobs.fusion_bytes > 0, knobs.fusion_bytes / total_bytes, 0.0)
    interval_s = np.clip(np.minimum(knobs.cycle_s, gather_s), backward_s / tensors, backward_s)
    batches = backward_s / interval_s
    in_batch = tensors / batches
    fused = np.maximum(1.0, total_bytes / batches / np.maximum(knobs.fusion_bytes, 1.0))
    messages = np.where(knobs.fusion_bytes > 0, np.minimum(fused, in_batch), in_batch)
    message_bytes = total_bytes / batches / messages
    inside_s = messages * _inside_host_s(job, costs, message_bytes, knobs)
    tensor_s = costs.tensor_s + (1.0 - knobs.is_cached) * costs.uncached_tensor_s * job.world_size
    batch_s = _negotiation_s(job, costs) + in_batch * tensor_s + inside_s
    batch_s += messages * _between_hosts_s(job, costs, message_bytes, knobs)
    busy_s = backward_s + (batches * inside_s if job.is_crowded else 0.0)
    reduced_s = np.maximum(busy_s + batch_s, interval_s + batches * batch_s)
    step_s: Array = compute_s - backward_s + reduced_s
    return step_s


def _negotiation_s(job: JobShape, costs: EngineCosts) -> float:
    """Return what one batch's request and response take."""
    is_one_host = len(job.ranks_per_host) == 1
    return costs.cycle_s + (0.0 if is_one_host else 2.0 * costs.link.latency_s)


def _inside_host_s(job: JobShape, costs: EngineCosts, message_bytes: Array, knobs: _Knobs) -> Array:
    """Return what a message takes inside a host; in a flat ring over several hosts the copies alone."""
    byte_s = costs.byte_s * np.where(knobs.chunk_bytes > CACHE_BYTES, OUT_OF_CACHE, 1.0)
    whole = costs.call_s + message_bytes * byte_s + np.ceil(message_bytes / knobs.chunk_bytes) * costs.chunk_s
    if len(job.ranks_per_host) == 1:
        return whole
    flat = message_bytes * costs.byte_s
    inside: Array = np.where(knobs.is_hierarchical > 0, whole, flat)
    return inside


def _between_hosts_s(job: JobShape, costs: EngineCosts, message_bytes: Array, knobs: _Knobs) -> Array:
    """Return what a message takes on the links, beyond what happens inside the hosts meanwhile."""
    hosts, ranks = len(job.ranks_per_host), job.world_size
    if hosts == 1:
        return np.zeros_like(message_bytes)
    ring = np.where(knobs.is_hierarchical > 0, hosts, ranks)
    first_chunk_s = knobs.is_hierarchical * np.minimum(knobs.chunk_bytes, message_bytes) * costs.link.byte_s
    wire_s: Array = 2.0 * (ring - 1) * (costs.link.latency_s + message_bytes / ring * costs.link.byte_s)
    return wire_s + first_chunk_s
