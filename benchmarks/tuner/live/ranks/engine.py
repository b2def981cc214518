# SPDX-License-Identifier: Apache-2.0
"""One rank of a job on this engine, which a scheme tunes live from a thread of rank 0."""

import json
import sys
import threading

from benchmarks.tuner.live.schemes import conduct
from benchmarks.tuner.live.task import MARK, LiveTask
from ringtune._engine import allreduce_algorithms
from ringtune.measuring.bench.surface_rank import TrainingSteps, agree
from ringtune.measuring.bench.workloads import Workload, WorkloadGradient
from ringtune.session.basics import init, shutdown
from ringtune.session.process_sets import global_process_set
from ringtune.session.submissions import world_of
from ringtune.tuner import default_config, search_space, tunable_names
from ringtune.tuning.engine.cost_prior import job_prior
from ringtune.tuning.engine.target import EngineTarget
from ringtune.world.world import World

STEPS_BETWEEN = 10
"""Steps after which the ranks agree whether to go on."""


def workload_of(task: LiveTask) -> Workload:
    """Return weights and biases, the last layer's first."""
    gradients = []
    for layer in reversed(range(task.layers)):
        gradients += [WorkloadGradient(f"{layer}.bias", task.width), WorkloadGradient(f"{layer}.weight", task.width**2)]
    return Workload("live", tuple(gradients))


class Tuner:
    """Rank 0's thread.

    Attributes:
        is_over: Whether it has printed its outcome, or failed.
    """

    def __init__(self, world: World, task: LiveTask) -> None:
        self._world = world
        self._task = task
        self._thread = threading.Thread(target=self._run, name="live tuner", daemon=True)
        self._thread.start()

    @property
    def is_over(self) -> bool:
        """True once the thread has ended."""
        return not self._thread.is_alive()

    def _run(self) -> None:
        world, task = self._world, self._task
        layout = world.layout.ranks_per_host
        baseline = default_config(layout)
        tuned = tunable_names(layout, has_allgathers=False)
        space = search_space({}, baseline, tuned=tuned, algorithms=allreduce_algorithms())
        target = EngineTarget(world.engine, space, baseline, threading.Event())
        is_hierarchical = bool(baseline["hierarchical_allreduce"])
        prior = job_prior(world.gradient_set.counts(), layout, world.calls, is_hierarchical=is_hierarchical)
        found = conduct(target, task.scheme, [] if prior is None else [prior], task.seed, task.steps)
        sys.stdout.write(MARK + json.dumps(found.to_json()) + "\n")
        sys.stdout.flush()


def main() -> None:
    """Train until the scheme is through."""
    task = LiveTask.from_argument(sys.argv[1])
    init()
    world = world_of(global_process_set)
    steps = TrainingSteps(world, workload_of(task), task.compute_ms)
    steps.run(STEPS_BETWEEN)
    tuner = Tuner(world, task) if world.rank == 0 else None
    while not agree(world, int(tuner is not None and tuner.is_over)):
        steps.run(STEPS_BETWEEN)
    shutdown()


if __name__ == "__main__":
    main()
