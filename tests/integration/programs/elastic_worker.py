# SPDX-License-Identifier: Apache-2.0
"""Trains as a worker of an elastic job, checks its end against a replay, and prints its weights.

Arguments: a folder for the files `steps`, to which each step of rank 0 adds a byte, and `times`, to which it adds the
moment of its end; the number of epochs; milliseconds of each step.
"""

import faulthandler
import hashlib
import json
import sys
import time
from pathlib import Path
from typing import Any

import torch

import ringtune.torch as hvd
from tests.integration import elastic_training
from tests.integration.elastic_table import MOMENT
from tests.integration.plain_rank import say

FOLDER, EPOCHS, STEP_MS = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])


def after_step(_: Any) -> None:
    """Count the step, and take some time."""
    if hvd.rank() == 0:
        with (FOLDER / "steps").open("ab") as steps:
            steps.write(b".")
        with (FOLDER / "times").open("ab") as times:
            times.write(MOMENT.pack(time.monotonic()))
    time.sleep(STEP_MS / 1000)


@hvd.elastic.run
def train(state: Any) -> None:
    """Train to the end."""
    elastic_training.train(state, EPOCHS, after_step, steps_per_commit=3)


def main() -> None:
    """Train, check, and report."""
    faulthandler.enable()  # a test that finds no progress ends the workers by SIGABRT
    torch.set_num_threads(1)
    hvd.init()
    state = elastic_training.new_state()
    train(state)
    weights = elastic_training.weights_of(state.model)
    elastic_training.check(state.records, weights, EPOCHS)
    sizes = [len(batches) for _, batches in state.records]
    text = json.dumps([state.records, weights]).encode()
    worlds = [size for place, size in enumerate(sizes) if place == 0 or size != sizes[place - 1]]
    say(json.dumps({"digest": hashlib.sha256(text).hexdigest(), "steps": len(sizes), "worlds": worlds}))


main()
