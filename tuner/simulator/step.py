# SPDX-License-Identifier: Apache-2.0
"""One step of a job, event by event: the engine's cycle of batches, rounds of negotiation, responses and collectives.

Ranks are alike, so one rank's communication thread stands for all, and a step of a thousand ranks takes no longer to
simulate than one of two. The rules are the engine's own:

- A *batch* goes when its first tensor has waited `cycle_ms`, and earlier when `fusion_bytes` or the step's last tensor
  are there (`native/src/engine/submission_queue`). While a collective runs no batch goes; tensors gather meanwhile.
- Rank 0 answers requests when it has executed all earlier responses (`progress`, `coordinator`). Ready tensors are
  fused up to `fusion_bytes`, past those of other types, and registered ones among themselves (`fusion`).
- Responses are executed in their order, beside the backward pass; once that has ended, the caller that waits drives
  the engine, and nobody need be woken (`progress_loop`).
"""

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from ringtune.tuner.space.config import Value

from .backward import Backward, DurationOf
from .cluster import Cluster
from .collectives import US_TO_MS, Duration, Task, allreduce_time
from .job import Job
from .knobs import Algorithm, Knobs
from .machine import Machine
from .negotiation import Negotiation


@dataclass(frozen=True)
class Response:
    """A fused message.

    Attributes:
        start_ms: When its allreduce began, since the step's begin.
        end_ms: When all ranks had the result.
        tensors: How many are in it.
        bytes: Of them together.
        algorithm: How they were reduced.
    """

    start_ms: float
    end_ms: float
    tensors: int
    bytes: int
    algorithm: Algorithm


@dataclass(frozen=True)
class StepTrace:
    """A simulated step.

    Attributes:
        step_ms: From one step's begin to the next.
        compute_ms: What it would have taken without communication.
        batches: Requests of each rank.
        responses: In the order in which they were executed.
    """

    step_ms: float
    compute_ms: float
    batches: int
    responses: tuple[Response, ...]

    @property
    def communication_ms(self) -> float:
        """The time in which allreduces ran."""
        return sum(response.end_ms - response.start_ms for response in self.responses)

    @property
    def exposed_ms(self) -> float:
        """By how much communication makes the step longer."""
        return self.step_ms - self.compute_ms


@dataclass(frozen=True)
class Tensor:
    """What a rank asks for.

    Attributes:
        bytes: Its size.
        dtype: The type of its elements.
        is_registered: Whether it lies in registered memory.
    """

    bytes: int
    dtype: str
    is_registered: bool

    def is_fusable(self, other: "Tensor") -> bool:
        """Tell whether two may travel together."""
        return self.dtype == other.dtype and self.is_registered == other.is_registered


@dataclass(frozen=True)
class _Request:
    arrival_ms: float
    tensors: tuple[Tensor, ...]


def simulate_step(machine: Machine, cluster: Cluster, job: Job, config: Mapping[str, Value]) -> StepTrace:
    """Simulate one step in the steady state, noise-free.

    Args:
        machine: What work costs.
        cluster: Where the job runs.
        job: What every rank does.
        config: A value for every parameter of the engine.

    Raises:
        ConfigError: If the config lacks a parameter or asks for an unknown algorithm.
    """
    knobs = Knobs.of(config)
    if cluster.world_size == 1:
        return StepTrace(job.compute_ms, job.compute_ms, 0, ())
    return _Step(machine, cluster, job, knobs).run()


def predicted_step_ms(machine: Machine, cluster: Cluster, job: Job, config: Mapping[str, Value]) -> float:
    """Return the noise-free time of a step in milliseconds: a pure function, for fitting `machine` to measurements.

    Raises:
        ConfigError: As `simulate_step`.
    """
    return simulate_step(machine, cluster, job, config).step_ms


class _Step:
    """The state of a rank's communication thread, and of the requests that are on their way to rank 0."""

    def __init__(self, machine: Machine, cluster: Cluster, job: Job, knobs: Knobs) -> None:
        self._machine, self._cluster, self._job, self._knobs = machine, cluster, job, knobs
        self._negotiation = Negotiation(machine, cluster, knobs.response_cache)
        self._tensors = tuple(
            Tensor(gradient.bytes, gradient.dtype, job.is_registered(gradient)) for gradient in job.gradients
        )
        submit_ms = machine.submit_us * US_TO_MS
        ready = [share * job.backward_ms + (n + 1) * submit_ms for n, share in enumerate(job.ready_shares)]
        self._backward = Backward(ready, job.forward_ms, cluster, job.compute_threads)
        in_cache = machine.cache_bytes / (cluster.ranks_per_host * max(job.bytes, 1))
        self._memory_share = max(0.0, 1.0 - in_cache)
        self._now_ms = job.forward_ms
        self._gathered = tuple(accumulate((tensor.bytes for tensor in self._tensors), initial=0))
        self._first = 0  # of the batch: tensors before it have been requested
        self._batches = 0
        self._requests: list[_Request] = []
        self._responses: list[Response] = []

    def run(self) -> StepTrace:
        done = 0
        while done < len(self._tensors):
            self._request_if_due()
            fusions = self._answer()
            if not fusions:
                self._sleep()
            for fused in fusions:
                self._execute(fused)
                done += len(fused)
                self._request_if_due()
        end_ms = max(self._now_ms, self._backward.end_ms)
        return StepTrace(end_ms + self._job.optimizer_ms, self._job.compute_ms, self._batches, tuple(self._responses))

    def _due_ms(self) -> float:
        """Return when the batch goes, as far as is known; never, if everything has been requested."""
        if self._first == len(self._tensors):
            return math.inf
        backward, knobs = self._backward, self._knobs
        due_ms = min(backward.submitted_ms(self._first) + knobs.cycle_ms, backward.end_ms)
        filling = bisect_left(self._gathered, self._gathered[self._first] + knobs.fusion_bytes, self._first + 1) - 1
        return min(due_ms, backward.submitted_ms(filling)) if filling < len(self._tensors) else due_ms

    def _request_if_due(self) -> None:
        """Ask for all that was submitted until now, if the batch is due."""
        if self._due_ms() > self._now_ms:
            return
        end = self._first
        while end < len(self._tensors) and self._backward.submitted_ms(end) <= self._now_ms:
            end += 1
        batch = self._tensors[self._first : end]
        self._first = end
        self._batches += 1
        self._work(self._negotiation.request_ms(len(batch)))
        self._requests.append(_Request(self._now_ms + self._negotiation.way_to_coordinator_ms(len(batch)), batch))

    def _answer(self) -> list[list[Tensor]]:
        """Return the fusions for which rank 0 answers now; the time goes on until all ranks know of the first."""
        arrived = [request for request in self._requests if request.arrival_ms <= self._now_ms]
        if not arrived:
            return []
        self._requests = [request for request in self._requests if request.arrival_ms > self._now_ms]
        ready = [tensor for request in arrived for tensor in request.tensors]
        fusions = fuse(ready, self._knobs.fusion_bytes)
        self._work(sum(self._negotiation.answer_ms(len(request.tensors)) for request in arrived))
        self._now_ms += self._negotiation.way_back_ms(len(ready), len(fusions))
        self._wake()
        return fusions

    def _execute(self, fused: Sequence[Tensor]) -> None:
        size = sum(tensor.bytes for tensor in fused)
        self._work((self._machine.response_us + len(fused) * self._machine.response_tensor_us) * US_TO_MS)
        algorithm = self._knobs.algorithm_for(self._cluster, size, is_registered=fused[0].is_registered)
        task = Task(self._machine, self._cluster, size, self._knobs.chunk_for(self._cluster), self._memory_share)
        start_ms = self._now_ms
        self._run(lambda stretch: allreduce_time(algorithm, task, stretch))
        self._responses.append(Response(start_ms, self._now_ms, len(fused), size, algorithm))

    def _sleep(self) -> None:
        """Let the time go on to the next event: a request arrives at rank 0, or a batch is due."""
        event_ms = min([self._due_ms(), *(request.arrival_ms for request in self._requests)])
        if event_ms > self._now_ms:
            self._now_ms = event_ms
            self._wake()

    def _wake(self) -> None:
        """Let the time go on until a thread that waits runs.

        While the backward pass runs the threads sleep. Afterwards the callers poll, unless they must take turns.
        """
        wake_ms, switch_ms = self._machine.wake_us * US_TO_MS, self._machine.switch_us * US_TO_MS
        if self._now_ms < self._backward.end_ms:
            self._run(lambda stretch: Duration(wake_ms * stretch, min(wake_ms, switch_ms) * stretch))
        else:
            self._now_ms += wake_ms * (self._cluster.threads_per_core(1.0) - 1.0)

    def _work(self, work_ms: float) -> None:
        self._run(lambda stretch: Duration(work_ms * stretch, work_ms * stretch))

    def _run(self, duration_of: DurationOf) -> None:
        """Let the time go on while the communication thread does something."""
        self._now_ms = self._backward.run_beside(self._now_ms, duration_of)


def fuse(ready: Sequence[Tensor], fusion_bytes: int) -> list[list[Tensor]]:
    """Return the messages in which ready tensors travel, each tensor once.

    Args:
        ready: In the order in which they became ready.
        fusion_bytes: A message takes, beside its first tensor, the later ones that may travel with it and fit.
    """
    fusions = []
    waiting = list(ready)
    while waiting:
        first, picked, left = waiting[0], [waiting[0]], list[Tensor]()
        size = first.bytes
        for position, tensor in enumerate(waiting[1:], start=1):
            if size >= fusion_bytes:
                left += waiting[position:]
                break
            if tensor.is_fusable(first) and size + tensor.bytes <= fusion_bytes:
                picked.append(tensor)
                size += tensor.bytes
            else:
                left.append(tensor)
        fusions.append(picked)
        waiting = left
    return fusions
