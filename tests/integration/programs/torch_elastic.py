# SPDX-License-Identifier: Apache-2.0
"""Trains elastically, with the places of its meetings given beforehand; the survivors' recipe without a server.

The variable PLACES has the environment of each meeting of this process, as JSON. Arguments: the name of the history, a
folder in which ranks leave notes for each other, the name of the recipe.
"""

import hashlib
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

import ringtune.torch as hvd
from ringtune.elastic.loop import elastic
from ringtune.elastic.membership import WorldMembership
from tests.integration import elastic_training
from tests.integration.plain_rank import say

EPOCHS = 3


class Given(WorldMembership):
    """Meetings whose places were given beforehand."""

    def __init__(self, note: Path) -> None:
        self._places = json.loads(os.environ["PLACES"])
        self._note = note
        self._part = hvd.ProcessSet([1])

    def add_part(self) -> None:
        """Add the set of rank 1, in a world that was joined without it."""
        hvd.add_process_set(self._part)

    def use_part(self, _: Any) -> None:
        """Add up in the set of rank 1."""
        if self._part.included():
            assert 1.0 == hvd.allreduce(torch.ones(1), op=hvd.Sum, process_set=self._part).item()

    def join_first(self) -> None:
        """Take the first place, and add the set."""
        os.environ.update(self._places.pop(0))
        hvd.init(process_sets=[self._part])

    @property
    def is_elastic(self) -> bool:
        """True: the next place is known."""
        return True

    def has_update(self) -> bool:
        """Return whether somebody has left the note, which counts for one meeting, and which one process alone sees."""
        return os.environ["NAME"] == "b" and self._note.exists() and len(self._places) > 0

    def join(self) -> None:
        """Take the next place."""
        if not hvd.is_initialized():
            os.environ.update(self._places.pop(0))
            super().join()


def dies_at(step: int, name: str) -> Callable[[Any], None]:
    """Return a callback that kills the process with a name after a step."""

    def after_step(state: Any) -> None:
        if len(state.records) == step and os.environ["NAME"] == name:
            os.kill(os.getpid(), signal.SIGKILL)

    return after_step


def dies_in_backward(step: int, name: str) -> Callable[[Any], None]:
    """Return a callback that kills the process with a name in the middle of a step's backward pass."""

    def after_step(state: Any) -> None:
        if len(state.records) == step and os.environ["NAME"] == name:
            first, *_ = state.model.parameters()  # autograd comes to it last
            first.register_hook(lambda _: os.kill(os.getpid(), signal.SIGKILL))

    return after_step


def notes_at(step: int, note: Path) -> Callable[[Any], None]:
    """Return a callback that leaves the note after a step."""

    def after_step(state: Any) -> None:
        if len(state.records) == step:
            note.touch()

    return after_step


def report(state: Any, recipe: elastic_training.Recipe, own_steps: int) -> None:
    """Check this rank's end, and print the weights, and the number of steps that this process has trained."""
    weights = elastic_training.weights_of(state.model)
    elastic_training.check(state.records, weights, EPOCHS, recipe)
    sizes = [len(batches) for _, batches in state.records]
    digest = hashlib.sha256(json.dumps(weights).encode()).hexdigest()
    say(json.dumps({"name": os.environ["NAME"], "sizes": sizes, "weights": digest, "own_steps": own_steps}))


def main() -> None:
    """Train through one history."""
    torch.set_num_threads(1)
    history, folder = sys.argv[1], Path(sys.argv[2])
    steps: Mapping[str, Callable[[Any], None]] = {
        "lost": dies_at(5, "b"),
        "lost in backward": dies_in_backward(5, "b"),
        "first lost": dies_at(5, "a"),
        "comes": notes_at(5, folder / "update"),
    }
    membership = Given(folder / "update")
    membership.join_first()
    recipe = elastic_training.RECIPES[sys.argv[3]]
    state = elastic_training.new_state(recipe)
    state.register_reset_callbacks([membership.add_part])

    trained = [0]

    def after_step(state: Any) -> None:
        trained[0] += 1
        membership.use_part(state)
        steps[history](state)

    arguments = (EPOCHS, after_step, 2, recipe)
    elastic(elastic_training.train, membership)(state, *arguments)
    report(state, recipe, trained[0])
    hvd.shutdown()


main()
