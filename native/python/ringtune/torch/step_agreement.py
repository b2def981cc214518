# SPDX-License-Identifier: Apache-2.0
"""Agreement of the ranks on a step's gradients, once their backward passes have ended: all go on, or all raise."""

from collections.abc import Sequence

from ringtune.errors import ConfigError, MismatchError
from ringtune.session.process_sets import ProcessSet
from ringtune.session.submissions import Reduction
from ringtune.world.world import World

from .gradient_entries import GradientEntry, changed_in_flight
from .parameter_names import NamedParameter
from .same_parameters import OPTIMIZER, check_same_parameters, difference_of_parameters, have_same_weights
from .step_notes import StepNote, StepNotes
from .weight_watch import WeightWatch

MOST_EQUAL = 3
"""Number of steps whose weights are compared without a difference: a loop that decays its weights itself writes to them
before each step, and a comparison reads them all."""


class StepAgreement:
    """The notes of one optimizer, and the checks that they call for.

    Attributes:
        has_news: Whether this rank's parameters changed since the ranks compared them.
        has_moved: Whether this rank's weights changed outside of `step()` while there were gradients not combined.
    """

    def __init__(self, process_set: ProcessSet, reduction: Reduction) -> None:
        """Begin with news.

        Args:
            process_set: Ranks that take part.
            reduction: Operation that combines the ranks' gradients.
        """
        self._process_set = process_set
        self._reduction = reduction
        self._notes: StepNotes | None = None
        self._equal = 0
        self.has_news = True
        self.has_moved = False

    def heed(self, watch: WeightWatch) -> None:
        """Take note of weights that were written to before the gradients are combined, in the first steps with such."""
        if self._equal < MOST_EQUAL:
            self.has_moved |= watch.was_written()

    def reach(
        self, world: World, entries: Sequence[GradientEntry], *, is_discarding: bool = False, is_early: bool = False
    ) -> StepNote:
        """Send this rank's note and return all ranks' notes combined.

        Args:
            world: World whose ranks take part.
            entries: All parameters, in the optimizer's order.
            is_discarding: Whether this rank throws the gradients away.
            is_early: Whether this rank combines them before it calls a closure.

        Raises:
            ConfigError: If the parameters differ; raised on every rank.
            EngineError: If the world is lost.
        """
        if self._notes is None or self._notes.count != len(entries):
            self._notes = StepNotes(f"{OPTIMIZER}.note", len(entries), self._reduction)
        absent, changed = [], []
        for index, entry in enumerate(entries):
            gradient = entry.parameter.grad
            if gradient is None:
                absent.append(index)
            if entry.handle is not None and entry.differs_from(gradient):
                changed.append(index)
        note = StepNote(
            discards=is_discarding,
            is_early=is_early,
            has_news=self.has_news,
            has_moved=self.has_moved,
            absent=tuple(absent),
            changed=tuple(changed),
        )
        handle, table = self._notes.start(world, note)
        try:
            handle.wait()
        except MismatchError:  # the numbers of parameters differ
            raise difference_of_parameters(self._process_set, _named(entries)) from None
        agreed = self._notes.read(table)
        if agreed.has_news:
            check_same_parameters(world, self._process_set, _named(entries))
        return agreed

    def check(self, world: World, entries: Sequence[GradientEntry], agreed: StepNote) -> None:
        """Raise the error that the ranks' notes call for, if any; called once no gradient is in flight.

        Raises:
            ConfigError: If a rank changed gradients in flight, used them on its own, or does something else with them
                than others; raised on every rank.
            EngineError: If the world is lost.
        """
        if agreed.changed and not agreed.discards:
            raise changed_in_flight(entries[agreed.changed[0]])
        if not agreed.is_unanimous:
            raise ConfigError(_not_unanimous(agreed))
        if agreed.has_moved:
            self.has_moved = False
            if not have_same_weights(world, _named(entries)):
                raise moved_outside_of_steps("the ranks' weights differ now")
            self._equal += 1


def moved_outside_of_steps(finding: str) -> ConfigError:
    """Return the error for weights that were changed, perhaps by gradients of each rank alone."""
    return ConfigError(
        "weights were changed outside of step(), after backward() and before its gradients were combined, and "
        f"{finding}. An update of your own, such as the first step of sharpness-aware minimization, needs "
        "optimizer.synchronize() between backward() and itself. For gradients of this rank alone, on purpose, use "
        "torch.autograd.grad(): what it returns is not combined. Weights that differed before need "
        "broadcast_parameters(); forward passes that write to weights, as of Embedding(max_norm=...), make them differ"
    )


def _not_unanimous(agreed: StepNote) -> str:
    if agreed.discards:
        return (
            "some ranks threw gradients away by zero_grad() or load_state_dict() that others step with; call "
            "zero_grad() and step() on all ranks alike"
        )
    return "some ranks called backward() before step(closure) and others did not; do it on all ranks alike"


def _named(entries: Sequence[GradientEntry]) -> list[NamedParameter]:
    return [(entry.name.removeprefix("gradient."), entry.parameter) for entry in entries]
