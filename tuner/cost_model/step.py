# SPDX-License-Identifier: Apache-2.0
"""The step in closed form: what a batch costs, how many there are, and how much of it backward hides.

| symbol | meaning |
|---|---|
| B | duration of backward, in which tensors become ready evenly |
| S | bytes of a step |
| F | `fusion_bytes` |
| T | time between two batches: `cycle_ms`, or the time in which F bytes become ready |
| C(T) | what a batch costs that gathered for T: a + r T, a for any batch, r for what is in it |
| m | bytes of a message |

The communication thread takes batch after batch. While it is at one, the next one gathers, so that batches are no
closer than T* = C(T*) = a / (1 - r). The last one ends C after backward; where communication takes longer than backward
(r near or above 1), all batches together take r B, and a few times a, because they grow by a factor each. Tensors in
registered memory and others do not travel together: each kind has messages of its own, in every batch. Where threads
that compute share their cores, each batch also costs them what it takes to let the communication thread run.

Between hosts a message goes twice around a ring of all ranks, a chunk per rank at once (Patarasu & Yuan 2009,
"Bandwidth optimal all-reduce algorithms"); or it is reduced inside each host first, and what each rank has reduced is
exchanged with its counterparts on all other hosts at once, there and back, chunk by chunk.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ringtune.tuner.config import Config
from ringtune.tuner.parameters import AUTO, KIB

from .costs import Constant, EngineCosts

Array = NDArray[np.float64]

BACKWARD_SHARE = 2 / 3
"""Of a step's computing: backward has about twice the work of forward."""
AUTO_CHUNK_BYTES = 512 * KIB
AUTO_CHUNK_BETWEEN_HOSTS_BYTES = 1024 * KIB
HOME_BYTES = 64 * KIB
"""From this size on a gradient lives in registered memory."""
CACHE_BYTES = 1024 * KIB
"""Chunks beyond this leave the cache between being written and being read."""
GROWING_BATCHES = 4
"""Where communication takes longer than backward: so many batches, each longer than the one before."""
LEAST_IDLE = 1e-3
ROUNDS = 2
"""Of an exchange with the counterparts: there and back."""
CHUNKS_ON_THEIR_WAY = 2
OVERLAPPED_CHUNK_BYTES = 2048 * KIB
"""The stages hold four chunks up to this: two on their way, two that are staged and reduced meanwhile."""
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

    @cached_property
    def fusable(self) -> tuple[tuple[int, ...], ...]:
        """The sizes of the tensors that travel together: those in registered memory, and the others."""
        kinds = [tuple(s for s in self.gradient_bytes if (s >= HOME_BYTES) == large) for large in (False, True)]
        return tuple(sizes for sizes in kinds if sizes)


@dataclass(frozen=True)
class Knobs:
    """Configs' values by knob, shape (m,) each; `fusion_bytes` 0 is off."""

    fusion_bytes: Array
    cycle_s: Array
    is_hierarchical: Array
    is_cached: Array
    chunk_bytes: Array

    @classmethod
    def of(cls, configs: Sequence[Config], job: JobShape) -> "Knobs":
        """Read m configs of the engine, with what `auto` means for the job."""
        auto_bytes = AUTO_CHUNK_BYTES if len(job.ranks_per_host) == 1 else AUTO_CHUNK_BETWEEN_HOSTS_BYTES
        chunks = [auto_bytes if c["chunk_bytes"] == AUTO else float(c["chunk_bytes"]) for c in configs]
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
    return step_s_under(Knobs.of(configs, job), job, costs, compute_s)


def step_s_under(knobs: Knobs, job: JobShape, costs: EngineCosts, compute_s: Constant) -> Array:
    """Return the same as `expected_step_s`, of configs that were read once and are asked about often.

    Of k sets of constants, each an array of shape (k, 1), it is of shape (k, m).
    """
    backward_s = BACKWARD_SHARE * compute_s
    every_s, whole_s, work_s = _batch_costs(job, costs, knobs)
    rate = np.maximum(whole_s - every_s, 0.0) / backward_s
    gather_s = backward_s * knobs.fusion_bytes / sum(job.gradient_bytes)
    first_s = np.clip(np.minimum(knobs.cycle_s, gather_s), backward_s / len(job.gradient_bytes), backward_s)
    own_pace_s = np.where(rate < 1.0, every_s / np.maximum(1.0 - rate, LEAST_IDLE), backward_s)
    interval_s = np.clip(own_pace_s, first_s, backward_s)
    after_s = every_s + rate * interval_s
    overtaken_s = first_s + GROWING_BATCHES * every_s + rate * backward_s - backward_s
    exposed_s = np.maximum(every_s + rate * first_s, np.minimum(after_s, overtaken_s))
    step_s: Array = compute_s + exposed_s
    if job.is_crowded:
        batches = np.clip(backward_s / interval_s, 1.0, len(job.gradient_bytes))
        step_s += work_s * (1.0 - first_s / backward_s) + batches * costs.wake_s
    return step_s


def _batch_costs(job: JobShape, costs: EngineCosts, knobs: Knobs) -> tuple[Array, Array, Array]:
    """Return what any batch costs, what one with all tensors costs, and what of that is computed inside the hosts."""
    tensors, is_fusing = float(len(job.gradient_bytes)), knobs.fusion_bytes > 0
    tensor_s = costs.tensor_s + (1.0 - knobs.is_cached) * costs.uncached_tensor_s * job.world_size
    every_s = np.zeros_like(knobs.fusion_bytes) + _negotiation_s(job, costs)
    whole_s, work_s = every_s + tensors * tensor_s, tensors * tensor_s
    for sizes in job.fusable:
        largest = np.where(is_fusing, sum(sizes) / np.maximum(knobs.fusion_bytes, 1.0), len(sizes))
        messages = np.clip(largest, 1.0, len(sizes))
        message_bytes = sum(sizes) / messages
        every_s = every_s + np.where(is_fusing, _message_s(job, costs, np.zeros_like(message_bytes), knobs), 0.0)
        whole_s = whole_s + messages * _message_s(job, costs, message_bytes, knobs)
        work_s = work_s + messages * _inside_host_s(job, costs, message_bytes, knobs)
    return every_s, whole_s, work_s


def _negotiation_s(job: JobShape, costs: EngineCosts) -> Constant:
    """Return what one batch's request and response take."""
    is_one_host = len(job.ranks_per_host) == 1
    return costs.cycle_s + (0.0 if is_one_host else 2.0 * costs.link.latency_s)


def _message_s(job: JobShape, costs: EngineCosts, message_bytes: Array, knobs: Knobs) -> Array:
    """Return what a message takes: inside hosts and between them, side by side where the stages have room for it."""
    inside_s = _inside_host_s(job, costs, message_bytes, knobs)
    between_s = _between_hosts_s(job, costs, message_bytes, knobs)
    is_overlapped = (knobs.is_hierarchical > 0) & (knobs.chunk_bytes <= OVERLAPPED_CHUNK_BYTES)
    taken: Array = np.where(is_overlapped, np.maximum(inside_s, between_s), inside_s + between_s)
    return taken


def _inside_host_s(job: JobShape, costs: EngineCosts, message_bytes: Array, knobs: Knobs) -> Array:
    """Return what a message takes inside a host; in a flat ring over several hosts the copies alone."""
    byte_s = costs.byte_s * np.where(knobs.chunk_bytes > CACHE_BYTES, OUT_OF_CACHE, 1.0)
    whole = costs.call_s + message_bytes * byte_s + np.ceil(message_bytes / knobs.chunk_bytes) * costs.chunk_s
    if len(job.ranks_per_host) == 1:
        return whole
    flat = message_bytes * costs.byte_s
    inside: Array = np.where(knobs.is_hierarchical > 0, whole, flat)
    return inside


def _between_hosts_s(job: JobShape, costs: EngineCosts, message_bytes: Array, knobs: Knobs) -> Array:
    """Return what a message takes on the links."""
    hosts, ranks, link = len(job.ranks_per_host), job.world_size, costs.link
    if hosts == 1:
        return np.zeros_like(message_bytes)
    turns = np.maximum(np.ceil(message_bytes / (ranks * knobs.chunk_bytes)), 1.0)
    flat_s = 2.0 * (ranks - 1) * (turns * link.latency_s + message_bytes / ranks * link.byte_s)
    chunks = np.maximum(np.ceil(message_bytes / knobs.chunk_bytes), 1.0)
    waits_s = ROUNDS * link.latency_s * (1.0 + (chunks - 1.0) / CHUNKS_ON_THEIR_WAY)
    sockets_s = chunks * 2.0 * ROUNDS * (hosts - 1) * link.message_s
    shared_byte_s = link.together * link.byte_s
    wire_s = 2.0 * (hosts - 1) / hosts * message_bytes * shared_byte_s
    first_chunk_s = np.minimum(knobs.chunk_bytes, message_bytes) * shared_byte_s
    taken: Array = np.where(knobs.is_hierarchical > 0, waits_s + sockets_s + wire_s + first_chunk_s, flat_s)
    return taken
