# SPDX-License-Identifier: Apache-2.0
"""One rank of a job that its own tuner tunes and watches, for as long as a file exists; its watch looks often."""

import sys
from pathlib import Path
from unittest.mock import patch

from benchmarks.tuner.live.ranks.training import STEPS_BETWEEN
from ringtune.measuring.bench.surface_rank import TrainingSteps, agree
from ringtune.measuring.bench.workloads import Workload, WorkloadGradient
from ringtune.session.basics import init, shutdown
from ringtune.session.process_sets import global_process_set
from ringtune.session.submissions import world_of
from ringtune.tuner.policy import continuous, watch

GRADIENTS = 8
GRADIENT_BYTES = 512 * 1024
COMPUTE_MS = 5.0
LOOK_EVERY_S = 0.5
"""Interval between two windows of the watch, seconds; half a minute in a job."""
BACK_OFF_S = 1.0
"""Delay after a check or a search before the next, seconds; ten minutes in a job."""


def main() -> None:
    """Train; the argument is the file."""
    lasting = Path(sys.argv[1])
    gradients = tuple(WorkloadGradient(f"g{number}", GRADIENT_BYTES // 4) for number in range(GRADIENTS))
    with patch.object(watch, "LOOK_EVERY_S", LOOK_EVERY_S), patch.object(continuous, "BACK_OFF_S", BACK_OFF_S):
        init()
        world = world_of(global_process_set)
        steps = TrainingSteps(world, Workload("watched", gradients), COMPUTE_MS)
        while agree(world, int(lasting.exists())):
            steps.run(STEPS_BETWEEN)
        shutdown()


if __name__ == "__main__":
    main()
