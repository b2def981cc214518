# SPDX-License-Identifier: Apache-2.0
"""One rank of the jobs that `warm_start` launches.

Its command is `ringtune run -np N python -m benchmarks.service.ranks.tuned tune|compare …`.

`tune MAX_STEPS` trains until the tuner has decided, and ends; rank 0 prints how many steps that took.
`compare {"configs": {NAME: CONFIG}, "rounds": R, "window_ms": M}` trains under configs in turns; rank 0 prints the
median step of each window, by name.
"""

import json
import random
import sys
import threading
from collections.abc import Mapping
from statistics import median
from typing import Any

import torch

import ringtune.callbacks
import ringtune.torch as hvd
from benchmarks.service.engine_jobs.training import COMMUNICATING, ModelSteps
from ringtune.measuring.bench.surface_rank import agree, measure_config
from ringtune.session.process_sets import global_process_set
from ringtune.session.submissions import world_of
from ringtune.tuner import Result

LOOK_STEPS = 25
"""Between two looks at whether the tuner has decided: all ranks end after the same step."""
FIRST_STEPS = 5


class Decided(ringtune.callbacks.Callback):
    """Notices that a tuning run has ended."""

    def __init__(self) -> None:
        """Begin without one."""
        self.event = threading.Event()

    def finished(self, result: Result, moment: ringtune.callbacks.Moment) -> None:
        """Take that it has."""
        del result, moment
        self.event.set()


def tune(most_steps: int) -> None:
    """Train until rank 0's tuner has decided, or up to a number of steps."""
    decided = Decided()
    ringtune.callbacks.add(decided)
    hvd.init()
    world = world_of(global_process_set)
    training = ModelSteps(COMMUNICATING)
    steps = 0
    is_decided = False
    while steps < most_steps and not is_decided:
        training.run(LOOK_STEPS)
        steps += LOOK_STEPS
        is_decided = bool(agree(world, int(decided.event.is_set())))
    if hvd.rank() == 0:
        print(json.dumps({"steps": steps, "is_decided": is_decided}))
    hvd.shutdown()


def compare(configs: Mapping[str, Mapping[str, Any]], rounds: int, window_ms: float) -> None:
    """Train under each config once in each round, in an order drawn anew; every rank draws the same."""
    hvd.init()
    world = world_of(global_process_set)
    training = ModelSteps(COMMUNICATING)
    training.run(FIRST_STEPS)
    order = random.Random(0)  # noqa: S311  (an order of turns, no secret)
    found: dict[str, list[float]] = {name: [] for name in configs}
    for _ in range(rounds):
        for name in order.sample(list(configs), len(configs)):
            found[name].append(median(measure_config(world, training, configs[name], window_ms)))
    if hvd.rank() == 0:
        print(json.dumps(found))
    hvd.shutdown()


def main() -> None:
    """Run the part that the arguments name."""
    torch.set_num_threads(1)
    if sys.argv[1] == "tune":
        tune(int(sys.argv[2]))
    else:
        compare(**json.loads(sys.argv[2]))


if __name__ == "__main__":
    main()
