# SPDX-License-Identifier: Apache-2.0
"""The training thread's side of tuning, on every rank: counts steps, joins the rounds, and changes the settings.

A *step* is a backward pass that synchronised gradients; it ends where the next forward pass begins. All ranks do the
same ones, so they count alike. The outcome of a round holds on all of them from the step of the next round on: every
rank has joined it by then, and none has waited for it. A change of settings is voted on: each rank makes the new ones
ready, and they come into force on all of them or on none. Rounds are rare while the tuner tries no config and only
watches its decision.

A round also has the least room that any rank has left in its memory. Once that is below zero, all ranks return to the
settings that training began with, at the same step and without a vote.
"""

from collections.abc import Callable
from dataclasses import dataclass

from ringtune.errors import MismatchError

from .control import ControlGroup, ControlLost
from .exchange import Exchange, Wish
from .live_model import NO_LIMIT, LiveModel, MemoryWatch, PendingSettings, RemovableHandle, Words
from .rounds import Round, Vote
from .step_clock import StepClock
from .turns import RoundBeacons

ROUND_STEPS = 2
"""Steps between a round and the switch that it agrees: one for the round, one to spare where no core was free."""
RESTING_ROUND_STEPS = 32
"""The same while a decision is in force, a multiple of `ROUND_STEPS`: no change is urgent then."""
NO_EPOCH = -1
"""Epoch of steps under the first settings after others were given up: they belong to no window."""
MIB = 2**20


@dataclass(frozen=True)
class FollowerLinks:
    """Links of a follower to the rest of its rank.

    Attributes:
        exchange: Exchange with the tuning thread, on rank 0; None elsewhere.
        clock: Measures when steps end.
        warn: Shows a warning to people.
        beacons: This rank's beacons of the turn among jobs; None for a job that takes none.
        memory: Watch over this rank's memory; None where the settings change it by little.
    """

    exchange: Exchange | None
    clock: StepClock
    warn: Callable[[str], None]
    beacons: RoundBeacons | None = None
    memory: MemoryWatch | None = None


class Follower:
    """One model on one rank. Used from the thread that trains; attributes without a leading `_` from any.

    Attributes:
        words: The settings in force.
        is_settled: True while a decision is in force and no config is tried; it changes at the same step on every rank.
        is_over: True once the settings stay as they are for good; it turns true at the same step on every rank.
    """

    def __init__(self, control: ControlGroup, model: LiveModel, links: FollowerLinks) -> None:
        """Prepare; the first round comes after `follow`.

        Args:
            control: Over the ranks of the model's process group.
            model: The model.
            links: Links to the rest of this rank.
        """
        self._control: ControlGroup | None = control
        self._rank = control.rank
        self._model = model
        self._links = links
        self._beacons = links.beacons or RoundBeacons(control.rank)
        self._handles: list[RemovableHandle] = []
        self._step = 0
        self._epoch = 0  # of the latest switch
        self._epoch_of_steps = 0
        self.words = model.in_force()
        self._first = self.words
        self.is_settled = False
        self.is_over = False

    @property
    def is_following(self) -> bool:
        """True until this rank has no more part in tuning."""
        return self._control is not None

    def follow(self) -> None:
        """Watch the model's steps until tuning is over."""
        self._handles = list(self._model.follow(self))

    def end_step(self) -> None:
        """Note the end of a step, between two forward passes.

        Raises:
            MismatchError: If the ranks are not where they should be; their gradients could not be averaged.
        """
        if self._control is None:
            return
        self._step += 1
        is_resting = self.is_settled and not self.is_over
        links = self._links
        try:
            if links.exchange is not None:
                for end in links.clock.mark(self._step, self._epoch_of_steps):
                    links.exchange.put(end)
            if self._step % (RESTING_ROUND_STEPS if is_resting else ROUND_STEPS) == 0:
                self._join_round(self._control)
        except MismatchError as error:
            self.part(_first_line(error), is_shown=False)  # the job shows the error
            raise
        except ControlLost as error:
            self.part(f"the ranks can no longer agree ({error})")
        except Exception as error:  # noqa: BLE001  (tuning never fails training)
            self.part(f"the tuner failed: {error!r}")

    def part(self, reason: str, *, is_shown: bool = True) -> None:
        """Keep the settings from now on, whatever the others do: no change happens without this rank's vote.

        Args:
            reason: Reason of the end, which the verdict names.
            is_shown: Whether this rank warns of it.
        """
        self.is_over = True
        self._leave()
        self._end_tuning(reason, is_shown=is_shown)

    def _join_round(self, control: ControlGroup) -> None:
        if self.is_over:  # every rank knows by now, and none needs the others any more
            self._leave()
            return
        words = control.take()
        if words is None:
            objection = self._model.objection()  # hooks that the user adds are all there now
        else:
            objection = None
            self._follow_round(control, Round.from_words(words, control.size))
        if self._control is None or self.is_over:
            return
        links = self._links
        wish = None if links.exchange is None else links.exchange.wish
        objector = None if objection is None else self._rank
        room = NO_LIMIT if links.memory is None else links.memory.room_bytes()
        mine = Round(self._step, wish, objector, self._beacons.words(), room)
        control.post(mine.words(control.size, len(self.words)))

    def _follow_round(self, control: ControlGroup, agreed: Round) -> None:
        if agreed.objector is not None:
            is_own = agreed.objector == self._rank
            own = self._model.objection() if is_own else None
            self._finish(own or f"rank {agreed.objector} has an objection, which it names", is_shown=is_own)
            return
        self._beacons.agree(agreed.beacons)
        wish = agreed.wish
        assert wish is not None  # rank 0 has one in every round
        if self._links.exchange is not None:
            self._links.exchange.memory.note(agreed.step, self.words, agreed.room_bytes)
        if agreed.room_bytes < 0 and not self._has_fallen_back(agreed.room_bytes):
            return
        if wish.epoch > self._epoch:
            self._switch(control, wish)
        self.is_settled = wish.is_decision
        if wish.is_last:
            self._finish("", is_shown=False)

    def _has_fallen_back(self, room_bytes: int) -> bool:
        """Return to the first settings, which need less memory; return whether tuning goes on."""
        is_first = self._rank == 0  # every rank knows the reason, and rank 0 shows it
        over = f"the memory of a rank was {-room_bytes / MIB:.4g} MiB above its limit"
        over += f" under the {self._model.texts.settings}"
        if self.words == self._first:
            self._finish(f"{over} that training began with", is_shown=is_first)
            return False
        self._model.prepared(self._first).commit()
        self.words, self._epoch_of_steps = self._first, NO_EPOCH
        if self._links.memory is not None:
            self._links.memory.reset()
        if self._links.exchange is not None:
            self._links.exchange.memory.refuse(self._epoch)
        if self.is_settled:
            self._finish(f"{over} that the tuner had decided on", is_shown=is_first)
            return False
        return True

    def _switch(self, control: ControlGroup, wish: Wish) -> None:
        """Change the settings, on all ranks or on none."""
        change, failure = _try_change(self._model, wish.words)
        try:
            vote = Vote(self._model.digest(wish.epoch, wish.words), has_failed=change is None)
            outcome = vote.check_equal(control.agree(vote.words()), self._model.texts)
        except BaseException:
            if change is not None:
                change.discard()
            raise
        if change is not None and not outcome.has_failed:
            change.commit()
            self._epoch = self._epoch_of_steps = wish.epoch
            self.words = wish.words
            if self._links.memory is not None:
                self._links.memory.reset()
            return
        if change is not None:
            change.discard()
        name = self._model.texts.settings
        self._finish(f"a rank could not change its {name}" if failure is None else f"no other {name}: {failure}")

    def _finish(self, reason: str, *, is_shown: bool = True) -> None:
        """Keep these settings from now on, as all ranks do at this step; the reason is empty after the last wish."""
        self.is_over = True
        self._end_tuning(reason, is_shown=is_shown)

    def _end_tuning(self, reason: str, *, is_shown: bool) -> None:
        self._beacons.leave()
        if self._links.exchange is not None:
            self._links.exchange.closing.end(reason)
        if is_shown:
            name = self._model.texts.settings
            self._links.warn(f"{reason}; tuning has ended and training goes on with the {name} that it has")

    def _leave(self) -> None:
        self._control = None
        for handle in self._handles:
            handle.remove()
        self._handles.clear()


def _try_change(model: LiveModel, words: Words) -> tuple[PendingSettings | None, str | None]:
    """Return the new settings, ready beside the old ones, or the error that prevented them."""
    try:
        return model.prepared(words), None
    except Exception as error:  # noqa: BLE001  (too little memory, for one)
        return None, _first_line(error)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [repr(error)])[0]
