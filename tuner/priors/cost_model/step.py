# SPDX-License-Identifier: Apache-2.0
"""The step in closed form: what a batch costs, how many there are, and how much of it backward hides.

| symbol | meaning |
|---|---|
| B | duration of backward, in which tensors become ready evenly |
| S | bytes of a step |
| F | `fusion_bytes` |
| T | time between two batches: `cycle_ms`, or the time in which F bytes become ready |
| C(T) | what a batch costs that gathered for T: a + r T, a for any batch, r for what is in it |

The communication thread takes batch after batch. While it is at one, the next one gathers, so that batches are no
closer than T* = C(T*) = a / (1 - r). The last one ends C after backward; where communication takes longer than backward
(r near or above 1), all batches together take r B, and a few times a, because they grow by a factor each. Tensors in
registered memory and others do not travel together: each kind has messages of its own, in every batch. Where threads
that compute share their cores, each batch also costs them what it takes to let the communication thread run. What a
message costs says `message`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ringtune.tuner.space.config import Config

from .costs import Constant, EngineCosts
from .job import JobShape, Knobs
from .message import Message, wait_s

Array = NDArray[np.float64]

BACKWARD_SHARE = 2 / 3
"""Of a step's computing: backward has about twice the work of forward."""
GROWING_BATCHES = 4
"""Where communication takes longer than backward: so many batches, each longer than the one before."""
LEAST_IDLE = 1e-3


@dataclass(frozen=True)
class Traffic:
    """What m configs make of a job's gradients, read once and asked about with many constants.

    Attributes:
        job: What is reduced, and where.
        knobs: The configs.
        kinds: Of messages that do not travel together.
    """

    job: JobShape
    knobs: Knobs
    kinds: "tuple[Kind, ...]"

    @classmethod
    def of(cls, job: JobShape, configs: Sequence[Config]) -> "Traffic":
        """Read configs of the engine."""
        knobs = Knobs.of(configs, job)
        return cls(job, knobs, tuple(Kind.of(job, knobs, sizes) for sizes in job.fusable))

    def step_s(self, costs: EngineCosts, compute_s: Constant) -> Array:
        """Return what a step should take under each config, seconds, shape (m,).

        Of k sets of constants, each an array of shape (k, 1), it is of shape (k, m).

        Args:
            costs: What everything costs.
            compute_s: Forward, backward and the optimizer without communication, seconds, above zero.
        """
        job, knobs = self.job, self.knobs
        backward_s = BACKWARD_SHARE * compute_s
        every_s, whole_s, work_s = self._batch_costs(costs)
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

    def _batch_costs(self, costs: EngineCosts) -> tuple[Array, Array, Array]:
        """Return what any batch costs, what one with all tensors costs, and what of that a rank computes."""
        job, knobs = self.job, self.knobs
        tensors, is_fusing = float(len(job.gradient_bytes)), knobs.fusion_bytes > 0
        tensor_s = costs.tensor_s + (1.0 - knobs.is_cached) * costs.uncached_tensor_s * job.world_size
        every_s = np.zeros_like(knobs.fusion_bytes) + _negotiation_s(job, costs)
        whole_s, work_s = every_s + tensors * tensor_s, tensors * tensor_s
        for kind in self.kinds:
            message_s, message_work_s = kind.message.durations_s(costs)
            every_s = every_s + np.where(is_fusing, kind.empty.durations_s(costs)[0], 0.0)
            whole_s = whole_s + kind.messages * message_s
            work_s = work_s + kind.messages * message_work_s
        return every_s, whole_s, work_s


@dataclass(frozen=True)
class Kind:
    """Messages that may travel together, under m configs.

    Attributes:
        messages: Of a step, shape (m,).
        message: One of them, all alike.
        empty: One without a byte, which every batch costs where tensors are fused.
    """

    messages: Array
    message: Message
    empty: Message

    @classmethod
    def of(cls, job: JobShape, knobs: Knobs, sizes: Sequence[int]) -> "Kind":
        """Return the messages of tensors of so many bytes each."""
        is_fusing = knobs.fusion_bytes > 0
        largest = np.where(is_fusing, sum(sizes) / np.maximum(knobs.fusion_bytes, 1.0), len(sizes))
        messages = np.clip(largest, 1.0, len(sizes))
        message_bytes = sum(sizes) / messages
        nothing = np.zeros_like(message_bytes)
        return cls(messages, Message.of(job, message_bytes, knobs), Message.of(job, nothing, knobs))


def expected_step_s(job: JobShape, costs: EngineCosts, compute_s: float, configs: Sequence[Config]) -> Array:
    """Return what a step should take under each config, seconds, shape (m,).

    Args:
        job: What is reduced, and where.
        costs: What that costs.
        compute_s: Forward, backward and the optimizer without communication, seconds, above zero.
        configs: m configs of the engine.
    """
    return Traffic.of(job, configs).step_s(costs, compute_s)


def _negotiation_s(job: JobShape, costs: EngineCosts) -> Constant:
    """Return what one batch's request and response take."""
    is_one_host = len(job.ranks_per_host) == 1
    return costs.cycle_s + (0.0 if is_one_host else 2.0 * wait_s(job, costs))
