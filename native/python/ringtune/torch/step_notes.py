# SPDX-License-Identifier: Apache-2.0
"""The step note: the message that ranks exchange once their backward passes have ended, in one small tensor.

It marks the parameters that have a gradient, so that one that no rank used keeps none; and the faults of the step, so
that an error is raised on all ranks or on none. Its elements are float32 and combined as gradients are, so that it
travels in one operation with small gradients; a positive scale leaves "no rank", "some" and "all" apart.

| element | 1 where |
|---|---|
| 0 | the rank takes part; the reference for the other elements, since ranks that have joined count as zeros |
| 1 | the gradients are combined only to be thrown away |
| 2 | the gradients are combined before a closure is called |
| 3 | parameters were added, removed, trained for the first time, or changed in dtype or shape |
| 4 | weights changed outside of `step()` while there were gradients that were not combined |
| 5 + i | parameter i has a gradient |
| 5 + n + i | the gradient of parameter i was changed in flight |
"""

from dataclasses import dataclass

import torch

from ringtune.session.submissions import Operand, Reduction, start_allreduce
from ringtune.world.handles import Handle
from ringtune.world.world import World

from .buffers import dtype_number

_TAKES_PART, _DISCARDS, _IS_EARLY, _HAS_NEWS, _HAS_MOVED, _HEADER = range(6)


@dataclass(frozen=True)
class StepNote:
    """One rank's note, or all ranks' notes combined.

    Attributes:
        discards: Whether a rank throws the gradients away.
        is_early: Whether a rank combines them before it calls a closure.
        is_unanimous: Whether all ranks do the same with the gradients.
        has_news: Whether a rank's parameters changed.
        has_moved: Whether a rank's weights changed outside of `step()` while there were gradients not combined.
        absent: Indices of the parameters without a gradient on any rank.
        changed: Indices of the parameters whose gradient a rank changed in flight.
    """

    discards: bool = False
    is_early: bool = False
    is_unanimous: bool = True
    has_news: bool = False
    has_moved: bool = False
    absent: tuple[int, ...] = ()
    changed: tuple[int, ...] = ()


_PLAIN = StepNote()


class StepNotes:
    """The notes of one optimizer."""

    def __init__(self, name: str, count: int, reduction: Reduction) -> None:
        """Prepare the note of an ordinary step: every parameter has a gradient.

        Args:
            name: Key that matches the ranks' notes.
            count: Number of parameters.
            reduction: Operation that combines the ranks' gradients.
        """
        self._name = name
        self.count = count
        self._reduction = reduction
        self._plain = torch.zeros(_HEADER + 2 * count, dtype=torch.float32, device="cpu")
        self._plain[_TAKES_PART] = 1.0
        self._plain[_HEADER : _HEADER + count] = 1.0

    def start(self, world: World, note: StepNote) -> tuple[Handle, torch.Tensor]:
        """Send this rank's note.

        Returns:
            The handle, and the table that `read` takes once the handle was waited for.

        Raises:
            EngineError: If the world is lost.
        """
        table = self._plain.clone()
        if note != _PLAIN:
            table[_DISCARDS], table[_IS_EARLY] = float(note.discards), float(note.is_early)
            table[_HAS_NEWS], table[_HAS_MOVED] = float(note.has_news), float(note.has_moved)
            for index in note.absent:
                table[_HEADER + index] = 0.0
            for index in note.changed:
                table[_HEADER + self.count + index] = 1.0
        operand = Operand(table.data_ptr(), tuple(table.shape), dtype_number(table.dtype), table)
        return start_allreduce(world, self._name, (operand, operand), self._reduction, lambda _: None), table

    def read(self, table: torch.Tensor) -> StepNote:
        """Return all ranks' notes combined."""
        one = table[_TAKES_PART]
        if torch.equal(table, self._plain * one):
            return _PLAIN
        shares = (table / one).tolist()  # of the ranks that take part
        present, changed = shares[_HEADER : _HEADER + self.count], shares[_HEADER + self.count :]
        nearly_all = 1.0 - 2.0**-20
        return StepNote(
            discards=shares[_DISCARDS] > 0.0,
            is_early=shares[_IS_EARLY] > 0.0,
            is_unanimous=not any(0.0 < share < nearly_all for share in (shares[_DISCARDS], shares[_IS_EARLY])),
            has_news=shares[_HAS_NEWS] > 0.0,
            has_moved=shares[_HAS_MOVED] > 0.0,
            absent=tuple(index for index, share in enumerate(present) if share == 0.0),
            changed=tuple(index for index, share in enumerate(changed) if share > 0.0),
        )
