# SPDX-License-Identifier: Apache-2.0
"""Steps of a program that uses `torch.distributed`: one ends where its optimizers have stepped.

The program may mark steps itself. Then these marks end, for the tuner needs one mark a step. Where none are marked, as
in a program that generates text, the engine takes a round of calls that repeats for a step.
"""

from collections import Counter
from itertools import count
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch.distributed import ProcessGroup
from torch.optim.optimizer import register_optimizer_step_post_hook

from ringtune.identity.fingerprints import model_fingerprint
from ringtune.torch.step_ends import mark_step_end, note_gradient
from ringtune.torch.wrapped_optimizer import WrappedOptimizer
from ringtune.tuning.model.follower import Follower
from ringtune.world.world import World

_HASH_DIGITS = 15


class Gradients:
    """The gradients of one optimizer, as the tuner compares steps by them."""

    def __init__(self, world: World, name: str) -> None:
        """Begin before a step.

        Args:
            world: World whose steps are counted.
            name: Name of the optimizer, the same on every rank.
        """
        self._world = world
        self._name = name
        self._trained = 0
        self._tensor_set = (0, 0)

    def count(self, optimizer: torch.optim.Optimizer) -> None:
        """Count the gradients of a step; their number tells whether they are the same as before."""
        parameters = [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]
        if len(parameters) != self._trained:
            self._note(parameters)
        self._world.engine.add_gradients(*self._tensor_set)

    def _note(self, parameters: list[torch.Tensor]) -> None:
        names = [f"{self._name}.{number}" for number in range(max(self._trained, len(parameters)))]
        self._world.gradient_set.discard(names[len(parameters) :])
        for name, parameter in zip(names, parameters, strict=False):
            note_gradient(self._world, name, parameter)
        counts = Counter((str(p.dtype).removeprefix("torch."), tuple(p.shape)) for p in parameters)
        size = sum(p.numel() * p.element_size() for p in parameters)
        self._trained, self._tensor_set = len(parameters), (int(model_fingerprint(counts)[:_HASH_DIGITS], 16), size)


class OptimizerSteps:
    """Marks the steps of this process's optimizers in the world of the default group. For the thread that trains."""

    def __init__(self, group: ProcessGroup, world: World) -> None:
        """Follow all optimizers from now on.

        Args:
            group: The default group.
            world: Its world.
        """
        self._group = group
        self._world = world
        self._follower: Follower | None = None
        self._numbers = count()
        self._gradients: WeakKeyDictionary[torch.optim.Optimizer, Gradients] = WeakKeyDictionary()
        self._last_step: int | None = None
        self._marks = True
        self._tunes_model = world.settings.autotune and not world.settings.is_unasked
        self._handle = register_optimizer_step_post_hook(self._after_step)
        if world.settings.autotune:
            world.engine.mark_rounds()

    def close(self) -> None:
        """Mark no step any more, and leave the model's settings as they are."""
        self._handle.remove()
        if self._follower is not None and self._follower.is_following:
            self._follower.part("the process group was destroyed", is_shown=False)

    def _after_step(self, optimizer: torch.optim.Optimizer, _arguments: Any, _keywords: Any) -> None:
        if isinstance(optimizer, WrappedOptimizer):  # marks its steps, and says which gradients they have
            return
        gradients = self._gradients.get(optimizer)
        if gradients is None:
            gradients = self._gradients[optimizer] = Gradients(self._world, f"optimizer.{next(self._numbers)}")
        gradients.count(optimizer)
        if not self._marks or not self._world.step_rounds.ends_step(optimizer):
            return
        if self._last_step is None and self._tunes_model:
            self._follower = self._tuned_model()
        step = mark_step_end(self._world)
        self._marks = self._last_step in {None, step - 1}
        self._last_step = step

    def _tuned_model(self) -> Follower | None:
        from .joint_tuning import start  # noqa: PLC0415  (loads DDP's and FSDP's tuners, for jobs that tune)

        try:
            return start(self._group, self._world)
        except Exception as error:  # noqa: BLE001  (tuning never fails training)
            self._world.console.warning(f"the engine is tuned without the model: {error!r}")
            return None
