# SPDX-License-Identifier: Apache-2.0
"""Discrete-event simulation of one step: the engine's cycle of batches, negotiation, responses and collectives.

Ranks are identical, so one rank's communication thread represents all. A step of a thousand ranks takes no longer to
simulate than a step of two. The rules are the engine's own:

- A *batch* is sent when its first tensor has waited `cycle_ms`, and earlier once `fusion_bytes` or the step's last
  tensor are ready (`native/src/engine/submissions/submission_queue`). No batch is sent during a collective; tensors
  gather instead.
- Rank 0 answers requests once it has executed all earlier responses (`progress`, `coordinator`). Ready tensors are
  fused up to `fusion_bytes`, skipping those of other types, and registered ones only with each other (`fusion`).
- Between distant hosts, ready tensors wait for the rest of their step where that is less than a round trip away
  (`step_rhythm`).
- Responses are executed in order, beside the backward pass. After it the waiting caller drives the engine, and no
  thread needs a wake-up (`progress_loop`).
"""

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from ringtune.tuner.engine_facts import ENGINE_FACTS
from ringtune.tuner.space.config import Value

from .backward import Backward, DurationOf
from .cluster import Cluster
from .collectives import US_TO_MS, Duration, Task, allreduce_time
from .job import SimulatedJob
from .knobs import Algorithm, Knobs
from .machine import SimulatedMachine
from .negotiation import Negotiation


@dataclass(frozen=True)
class Response:
    """Fused message.

    Attributes:
        start_ms: Start of the allreduce, milliseconds since the start of the step.
        end_ms: Time at which all ranks had the result, milliseconds since the start of the step.
        tensors: Number of tensors in the message.
        bytes: Total size of the tensors.
        algorithm: Algorithm of the allreduce.
    """

    start_ms: float
    end_ms: float
    tensors: int
    bytes: int
    algorithm: Algorithm


@dataclass(frozen=True)
class StepTrace:
    """Trace of a simulated step.

    Attributes:
        step_ms: Time from the start of the step to the start of the next, milliseconds.
        compute_ms: Duration without communication, milliseconds.
        batches: Number of requests of each rank.
        responses: Responses in the order of execution.
    """

    step_ms: float
    compute_ms: float
    batches: int
    responses: tuple[Response, ...]

    @property
    def communication_ms(self) -> float:
        """Time in which allreduces ran, milliseconds."""
        return sum(response.end_ms - response.start_ms for response in self.responses)

    @property
    def exposed_ms(self) -> float:
        """Time that communication adds to the step, milliseconds."""
        return self.step_ms - self.compute_ms


@dataclass(frozen=True)
class Tensor:
    """Requested tensor.

    Attributes:
        bytes: Size in memory.
        dtype: Type of the elements.
        is_registered: Whether the tensor is in registered memory.
    """

    bytes: int
    dtype: str
    is_registered: bool

    def is_fusable(self, other: "Tensor") -> bool:
        """Return whether two tensors may be fused."""
        return self.dtype == other.dtype and self.is_registered == other.is_registered


@dataclass(frozen=True)
class _SentRequest:
    arrival_ms: float
    tensors: tuple[Tensor, ...]


def simulate_step(
    machine: SimulatedMachine, cluster: Cluster, job: SimulatedJob, config: Mapping[str, Value]
) -> StepTrace:
    """Simulate one step in the steady state, noise-free.

    Args:
        machine: Cost constants.
        cluster: Cluster of the job.
        job: Workload of every rank.
        config: Config with a value for every parameter of the engine.

    Raises:
        ConfigError: If the config lacks a parameter or asks for an unknown algorithm.
    """
    knobs = Knobs.of(config)
    if cluster.world_size == 1:
        return StepTrace(job.compute_ms, job.compute_ms, 0, ())
    return _RankState(machine, cluster, job, knobs).run()


def predicted_step_ms(
    machine: SimulatedMachine, cluster: Cluster, job: SimulatedJob, config: Mapping[str, Value]
) -> float:
    """Return the noise-free time of a step in milliseconds: a pure function, for fitting `machine` to measurements.

    Raises:
        ConfigError: As `simulate_step`.
    """
    return simulate_step(machine, cluster, job, config).step_ms


class _RankState:
    """State of a rank's communication thread, and of the requests in flight to rank 0."""

    def __init__(self, machine: SimulatedMachine, cluster: Cluster, job: SimulatedJob, knobs: Knobs) -> None:
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
        self._first = 0  # first tensor of the batch: those before it have been requested
        self._batches = 0
        self._requests: list[_SentRequest] = []
        self._first_arrival_ms: float | None = None
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
        """Return the expected send time of the batch; infinite if everything has been requested."""
        if self._first == len(self._tensors):
            return math.inf
        backward, knobs = self._backward, self._knobs
        due_ms = min(backward.submitted_ms(self._first) + knobs.cycle_ms, backward.end_ms)
        filling = bisect_left(self._gathered, self._gathered[self._first] + knobs.fusion_bytes, self._first + 1) - 1
        return min(due_ms, backward.submitted_ms(filling)) if filling < len(self._tensors) else due_ms

    def _request_if_due(self) -> None:
        """Request all tensors submitted so far, if the batch is due."""
        if self._due_ms() > self._now_ms:
            return
        end = self._first
        while end < len(self._tensors) and self._backward.submitted_ms(end) <= self._now_ms:
            end += 1
        batch = self._tensors[self._first : end]
        self._first = end
        self._batches += 1
        self._work(self._negotiation.request_ms(len(batch)))
        self._requests.append(_SentRequest(self._now_ms + self._negotiation.way_to_coordinator_ms(len(batch)), batch))

    def _answer(self) -> list[list[Tensor]]:
        """Return the fusions that rank 0 answers now; advance the time until all ranks know the first of them."""
        arrived = self._arrived()
        if not arrived or self._held_until_ms(arrived) > self._now_ms:
            return []
        self._requests = [request for request in self._requests if request.arrival_ms > self._now_ms]
        ready = [tensor for request in arrived for tensor in request.tensors]
        fusions = fuse(ready, self._knobs.fusion_bytes)
        self._work(sum(self._negotiation.answer_ms(len(request.tensors)) for request in arrived))
        self._now_ms += self._negotiation.way_back_ms(len(ready), len(fusions))
        self._wake()
        return fusions

    def _arrived(self) -> list[_SentRequest]:
        return [request for request in self._requests if request.arrival_ms <= self._now_ms]

    def _held_until_ms(self, arrived: Sequence[_SentRequest]) -> float:
        """Return the time until which these requests wait for the rest of the step; it is past where they do not."""
        round_trip_us = self._cluster.round_trip_us
        if round_trip_us < ENGINE_FACTS.distant_round_trip_us or not arrived:
            return -math.inf
        if self._first_arrival_ms is None:
            self._first_arrival_ms = arrived[0].arrival_ms
        answered = sum(response.tensors for response in self._responses)
        is_complete = answered + sum(len(request.tensors) for request in arrived) == len(self._tensors)
        margin_ms = round_trip_us * US_TO_MS / ENGINE_FACTS.hold_margin_divisor
        last_ms = self._first_arrival_ms + self._backward.end_ms - self._backward.submitted_ms(0)
        is_near = last_ms - self._now_ms < round_trip_us * US_TO_MS - margin_ms
        return last_ms + margin_ms if is_near and not is_complete else -math.inf

    def _execute(self, fused: Sequence[Tensor]) -> None:
        size = sum(tensor.bytes for tensor in fused)
        self._work((self._machine.response_us + len(fused) * self._machine.response_tensor_us) * US_TO_MS)
        algorithm = self._knobs.algorithm_for(self._cluster, size, is_registered=fused[0].is_registered)
        chunk_bytes, is_skewed = self._knobs.chunk_for(self._cluster, size), self._knobs.is_skewed(self._cluster)
        is_rounded = self._knobs.is_rounded
        task = Task(self._machine, self._cluster, size, chunk_bytes, self._memory_share, is_skewed, is_rounded)
        start_ms = self._now_ms
        self._run(lambda stretch: allreduce_time(algorithm, task, stretch))
        self._responses.append(Response(start_ms, self._now_ms, len(fused), size, algorithm))

    def _sleep(self) -> None:
        """Advance the time to the next event: a request arrives at rank 0, a batch is due, or a wait is over."""
        others_ms = (self._held_until_ms(self._arrived()), *(request.arrival_ms for request in self._requests))
        event_ms = min([self._due_ms(), *(other_ms for other_ms in others_ms if other_ms > self._now_ms)])
        if event_ms > self._now_ms:
            self._now_ms = event_ms
            self._wake()

    def _wake(self) -> None:
        """Advance the time until a waiting thread runs.

        During the backward pass the threads sleep. Afterwards the callers poll, unless they must share cores.
        """
        wake_ms, switch_ms = self._machine.wake_us * US_TO_MS, self._machine.switch_us * US_TO_MS
        if self._now_ms < self._backward.end_ms:
            self._run(lambda stretch: Duration(wake_ms * stretch, min(wake_ms, switch_ms) * stretch))
        else:
            self._now_ms += wake_ms * (self._cluster.threads_per_core(1.0) - 1.0)

    def _work(self, work_ms: float) -> None:
        self._run(lambda stretch: Duration(work_ms * stretch, work_ms * stretch))

    def _run(self, duration_of: DurationOf) -> None:
        """Advance the time by an operation of the communication thread."""
        self._now_ms = self._backward.run_beside(self._now_ms, duration_of)


def fuse(ready: Sequence[Tensor], fusion_bytes: int) -> list[list[Tensor]]:
    """Return the fused messages of ready tensors, with each tensor in one message.

    Args:
        ready: Tensors in the order in which they became ready.
        fusion_bytes: Maximum size of a message. Its first tensor always goes; later tensors join if they may be fused
            and fit.
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
