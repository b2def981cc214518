# SPDX-License-Identifier: Apache-2.0
"""One rank of `ringtune bench --record-surface`: trains without a model, under one config after the other.

A step loads the engine as a job does: it computes, and meanwhile gradients become ready one after the other, in
proportion to their bytes; then it waits for all of them. Computing is real work of this thread, of a stated amount of
processor time, so that ranks that share a core disturb each other as they do in a job.
"""

import json
import sys
import time
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from ringtune import _engine
from ringtune.errors import RingtuneError
from ringtune.session.basics import init, shutdown
from ringtune.session.process_sets import global_process_set
from ringtune.session.submissions import Reduction, Sum, start_allreduce, world_of
from ringtune.world.engine_config import engine_config
from ringtune.world.world import World

from .engine_rank import BlockingCaller, operand_of, registered_arrays
from .surface_assignment import MAX_STEPS, MIN_STEPS, Assignment
from .timing import Floats, aligned_zeros
from .workloads import ELEMENT_BYTES, Workload

FORWARD_SHARE = 1 / 3
"""Share of a step's computing before the first gradient: backward has about twice the work of forward."""
REGISTERED_BYTES = _engine.engine_facts()["registered_min_bytes"]
"""Smallest gradient to which a front end gives registered memory, where all ranks share a host."""
SWITCH_STEPS = 2
"""Steps left out after a config was asked for: the first may begin under the one before, the second is usual."""
SETTLE_STEPS = 1
_MATRIX = 48  # its product takes about ten microseconds: the grain of computing
_SUM = Reduction(Sum)


class RecordedSteps(Protocol):
    """Steps of a job on one rank."""

    def run(self, steps: int) -> list[float]:
        """Run so many steps and return how long each took, milliseconds."""


class Computing:
    """Work for a processor."""

    def __init__(self) -> None:
        self._matrix = np.full((_MATRIX, _MATRIX), 1e-3, dtype=np.float32)
        self._product = np.empty_like(self._matrix)

    def run(self, seconds: float) -> None:
        """Keep this thread busy for so much processor time, however long that takes."""
        end_s = time.thread_time() + seconds
        while time.thread_time() < end_s:
            np.matmul(self._matrix, self._matrix, out=self._product)


class TrainingSteps:
    """Steps of a job on this rank."""

    def __init__(self, world: World, workload: Workload, compute_ms: float) -> None:
        self._world = world
        self._computing = Computing()
        arrays = _arrays(world, workload)
        names = [f"{workload.name}.{gradient.name}" for gradient in workload.gradients]
        self._gradients = list(zip(names, map(operand_of, arrays), strict=True))
        self._forward_s = FORWARD_SHARE * compute_ms * 1e-3
        backward_s = (1 - FORWARD_SHARE) * compute_ms * 1e-3
        total = sum(array.nbytes for array in arrays)
        self._shares_s = [backward_s * array.nbytes / total for array in arrays]

    def run(self, steps: int) -> list[float]:
        """Run so many steps and return how long each took, milliseconds."""
        return [self._run_one() for _ in range(steps)]

    def _run_one(self) -> float:
        begin_s = time.perf_counter()
        self._computing.run(self._forward_s)
        handles = []
        for (name, operand), share_s in zip(self._gradients, self._shares_s, strict=True):
            self._computing.run(share_s)
            pair = (operand, operand)
            handles.append(start_allreduce(self._world, name, pair, _SUM, lambda _: None, is_gradient=True))
        for handle in handles:
            handle.wait()
        self._world.engine.mark_step()
        return (time.perf_counter() - begin_s) * 1e3


def _arrays(world: World, workload: Workload) -> list[Floats]:
    """Return memory for the gradients as a front end has it: large ones registered, where all ranks share a host."""
    limit = REGISTERED_BYTES if world.layout.host_count == 1 else sys.maxsize
    large = tuple(each for each in workload.gradients if ELEMENT_BYTES * each.elements >= limit)
    registered = iter(registered_arrays(world, Workload(workload.name, large)) if large else ())
    return [
        next(registered) if ELEMENT_BYTES * each.elements >= limit else aligned_zeros(each.elements)
        for each in workload.gradients
    ]


def agree(world: World, number: int) -> int:
    """Return rank 0's number, on every rank; exact up to 2^24."""
    agreed = aligned_zeros(1)
    agreed[0] = number if world.rank == 0 else 0
    BlockingCaller(world).allreduce(agreed, 1)
    return int(agreed[0])


def measure_config(world: World, steps: RecordedSteps, config: Mapping[str, Any], window_ms: float) -> list[float]:
    """Bring a config in force on all ranks and return how long steps take there, milliseconds.

    Raises:
        RingtuneError: If it does not come in force.
    """
    epoch = world.engine.apply_config(engine_config(config)) if world.rank == 0 else 0
    step_ms = steps.run(SWITCH_STEPS)[-1]
    if world.rank == 0 and world.engine.config_epoch() != epoch:
        raise RingtuneError(f"a config is not in force after {SWITCH_STEPS} steps: {dict(config)}")
    count = agree(world, window_steps(window_ms, step_ms))
    steps.run(SETTLE_STEPS)  # agreeing was a step of a kind of its own
    return steps.run(count)


def window_steps(window_ms: float, step_ms: float) -> int:
    """Return how many steps a window has."""
    return max(MIN_STEPS, min(MAX_STEPS, round(window_ms / step_ms)))


def main() -> None:
    """Measure the assignment in the argument; rank 0 prints a line for the launch and one for each window."""
    assignment = Assignment.from_argument(sys.argv[1])
    init()
    world = world_of(global_process_set)
    _say(world, {"calls": [[call.size_bytes, call.call_s] for call in world.calls]})
    steps = TrainingSteps(world, Workload.from_argument(assignment.workload), assignment.compute_ms)
    steps.run(SWITCH_STEPS)
    begin_s = time.monotonic()
    for turn, config in enumerate(assignment.configs):
        at_s = time.monotonic() - begin_s
        step_ms = measure_config(world, steps, config, assignment.window_ms)
        _say(world, {"turn": turn, "at_s": round(at_s, 2), "step_ms": [float(f"{ms:.5g}") for ms in step_ms]})
    shutdown()


def _say(world: World, record: Mapping[str, Any]) -> None:
    if world.rank == 0:
        sys.stdout.write(json.dumps(record) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
