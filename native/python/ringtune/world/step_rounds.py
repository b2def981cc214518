# SPDX-License-Identifier: Apache-2.0
"""The end of a training step where several optimizers take turns.

A generator and a discriminator, or dense and sparse parameters, have an optimizer each. Windows of the tuner compare
steps with the same gradients, so that a step has to hold a turn of each.
"""

from weakref import WeakSet

MOST_REPEATS = 32
"""Turns of one optimizer without the others, after which they are taken for gone; a critic has five or ten."""


class StepRounds:
    """The optimizers that have stepped since the last training step ended; used from the training thread alone."""

    def __init__(self) -> None:
        """Begin before the first step."""
        self._last: WeakSet[object] = WeakSet()
        self._now: WeakSet[object] = WeakSet()
        self._repeats = 0

    def ends_step(self, optimizer: object) -> bool:
        """Take note of an optimizer's step; return whether all that made up the last training step have stepped."""
        self._repeats += optimizer in self._now
        self._now.add(optimizer)
        if not self._last <= self._now and self._repeats < MOST_REPEATS:
            return False
        self._last, self._now, self._repeats = self._now, WeakSet(), 0
        return True
