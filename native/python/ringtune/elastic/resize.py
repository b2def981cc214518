# SPDX-License-Identifier: Apache-2.0
"""Policies for another number of ranks: changes of the learning rate and of the batch."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ringtune.session.session import SESSION
from ringtune.system.counts import counted


@dataclass(frozen=True)
class Resize:
    """A change of the number of ranks.

    Attributes:
        state: State of the training, already the same on all ranks.
        old_size: Number of ranks for which its learning rate was set.
        new_size: Number of ranks now.
    """

    state: Any
    old_size: int
    new_size: int

    @property
    def factor(self) -> float:
        """New number of ranks for each old one; the global batch grows by it if the batch of a rank stays."""
        return self.new_size / self.old_size


ResizePolicy = Callable[[Resize], None]
"""Called on every rank after the ranks have synchronized in a world of another size; it must do the same on all."""


def keep_learning_rate(resize: Resize) -> None:
    """Leave the learning rate, and print so once per resize: the default, as in Horovod.

    A program that was written for Horovod sets its learning rate in a reset callback; any other default would scale it
    twice.
    """
    world = SESSION.require()
    if world.rank == 0:
        world.console.warning(
            f"the world has {counted(resize.new_size, 'rank')} instead of {resize.old_size}; with the same batch on "
            f"each rank the global batch is {resize.factor:.3g} times as large, and the learning rate stays as it is "
            "unless a reset callback sets it; state.register_resize_policy(...) chooses otherwise"
        )
