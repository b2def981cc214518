# SPDX-License-Identifier: Apache-2.0
"""Closed-form step time: cost and number of batches, and the part that backward hides.

| symbol | meaning |
|---|---|
| B | duration of backward; tensors become ready at a constant rate |
| S | gradient bytes of a step |
| F | `fusion_bytes` |
| T | time between two batches: `cycle_ms`, or the time in which F bytes become ready |
| C(T) | cost of a batch that gathered for T: a + r T, with a per batch and r per second of gathering |

The communication thread processes one batch after the other, and the next batch gathers meanwhile. The shortest
interval between batches is therefore T* = C(T*) = a / (1 - r). The last batch ends C after backward. If communication
takes longer than backward (r near or above 1), all batches together take r B plus a few times a, because each batch is
larger than the one before by a factor. Tensors in registered memory are not fused with others: every batch has one
message or more of each kind. With crowded cores, each batch also costs the computing threads the time in which the
communication thread runs. `message` has the cost of a message.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ringtune.tuner.space.config import Config

from .costs import Constant, EngineCosts
from .job import JobShape, KnobColumns
from .message import Message, wait_s

Array = NDArray[np.float64]

BACKWARD_SHARE = 2 / 3
"""Share of backward in the compute time: it has about twice the work of forward."""
GROWING_BATCHES = 4
"""Number of ever larger batches if communication takes longer than backward."""
LEAST_IDLE = 1e-3
"""Lower bound of 1 - r, which divides."""


@dataclass(frozen=True)
class Traffic:
    """Messages of a job under m configs: computed once, then evaluated with many sets of constants.

    Attributes:
        job: Shape of the job.
        knobs: Knobs of the m configs.
        kinds: Kinds of messages that are not fused with each other.
    """

    job: JobShape
    knobs: KnobColumns
    kinds: "tuple[TensorKind, ...]"

    @classmethod
    def of(cls, job: JobShape, configs: Sequence[Config]) -> "Traffic":
        """Return the messages of a job under configs of the engine."""
        knobs = KnobColumns.of(configs, job)
        return cls(job, knobs, tuple(TensorKind.of(job, knobs, sizes) for sizes in job.fusable))

    def step_s(self, costs: EngineCosts, compute_s: Constant) -> Array:
        """Return the expected step time of each config, seconds, shape (m,).

        With k sets of constants, each an array of shape (k, 1), the shape is (k, m).

        Args:
            costs: Cost constants.
            compute_s: Compute time of a step: forward, backward and the optimizer, seconds, above zero.
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
        """Return the cost of any batch, the cost of one with all tensors, and a rank's processor time in the latter."""
        job, knobs = self.job, self.knobs
        tensors, is_fusing = float(len(job.gradient_bytes)), knobs.fusion_bytes > 0
        tensor_s = costs.tensor_s + (1.0 - knobs.is_cached) * costs.uncached_tensor_s * job.world_size
        waits_s = 0.0 if len(job.ranks_per_host) == 1 else 2.0 * wait_s(job, costs)  # of request and response
        every_s = np.zeros_like(knobs.fusion_bytes) + (costs.cycle_s + waits_s)
        whole_s, work_s = every_s + tensors * tensor_s, tensors * tensor_s
        for kind in self.kinds:
            message_s, message_work_s = kind.message.durations_s(costs)
            every_s = every_s + np.where(is_fusing, kind.empty.durations_s(costs)[0], 0.0)
            whole_s = whole_s + kind.messages * message_s
            work_s = work_s + kind.messages * message_work_s
        return every_s, whole_s, work_s


@dataclass(frozen=True)
class TensorKind:
    """A kind of tensors that may be fused, and its messages under m configs.

    Attributes:
        messages: Number of messages of a step, shape (m,).
        message: One of the messages, which are all alike.
        empty: Message of zero bytes: the fixed cost in every batch if tensors are fused.
    """

    messages: Array
    message: Message
    empty: Message

    @classmethod
    def of(cls, job: JobShape, knobs: KnobColumns, sizes: Sequence[int]) -> "TensorKind":
        """Return the kind with tensors of the given sizes."""
        is_fusing = knobs.fusion_bytes > 0
        largest = np.where(is_fusing, sum(sizes) / np.maximum(knobs.fusion_bytes, 1.0), len(sizes))
        messages = np.clip(largest, 1.0, len(sizes))
        message_bytes = sum(sizes) / messages
        nothing = np.zeros_like(message_bytes)
        return cls(messages, Message.of(job, message_bytes, knobs), Message.of(job, nothing, knobs))


def expected_step_s(job: JobShape, costs: EngineCosts, compute_s: float, configs: Sequence[Config]) -> Array:
    """Return the expected step time of each config, seconds, shape (m,).

    Args:
        job: Shape of the job.
        costs: Cost constants.
        compute_s: Compute time of a step: forward, backward and the optimizer, seconds, above zero.
        configs: m configs of the engine.
    """
    return Traffic.of(job, configs).step_s(costs, compute_s)
