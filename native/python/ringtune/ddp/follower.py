# SPDX-License-Identifier: Apache-2.0
"""The training thread's side of tuning, on every rank: counts steps, joins the rounds, and changes the buckets.

A *step* is a backward pass that synchronised gradients; it ends where the next forward pass begins. All ranks do the
same ones, so they count alike. The outcome of a round holds on all of them from the step of the next round on: every
rank has joined it by then, and none has waited for it. A change of buckets is voted on: each rank builds its
new reducer, and it comes into force on all of them or on none. Rounds are rare while the tuner tries nothing and only
watches its decision.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel
from torch.utils.hooks import RemovableHandle

from ringtune.errors import MismatchError

from .buckets import BucketSizes
from .control import ControlGroup, ControlLost
from .reducers import Rebuild, find_objection, is_captured, is_joining, output_tensors
from .rounds import Round, Vote, digest_of
from .step_clock import StepClock
from .target import Exchange, Wish

ROUND_STEPS = 2
"""Steps between a round and the switch that it agrees: one for the round, one to spare where no core was free."""
RESTING_ROUND_STEPS = 32
"""The same while a decision is in force, a multiple of `ROUND_STEPS`: nothing is urgent then."""


class Follower:
    """One model on one rank. Used from the thread that trains; what has a name without `_` from any.

    Attributes:
        sizes: The sizes of the buckets in force.
        is_settled: True while a decision is in force and nothing is tried; it changes at the same step on every rank.
        is_over: True once the buckets stay as they are for good; it turns true at the same step on every rank.
    """

    def __init__(
        self,
        control: ControlGroup,
        *,
        exchange: Exchange | None,
        sizes: BucketSizes,
        clock: StepClock,
        accept_hook: bool,
        warn: Callable[[str], None],
    ) -> None:
        """Prepare; nothing happens before `follow`.

        Args:
            control: Over the ranks of the model's process group.
            exchange: Exchange with the tuning thread, on rank 0; None elsewhere.
            sizes: Sizes of the buckets in force.
            clock: Measures when steps end.
            accept_hook: See `find_objection`.
            warn: Shows a warning to people.
        """
        self._control: ControlGroup | None = control
        self._rank = control.rank
        self._exchange = exchange
        self._clock = clock
        self._accept_hook = accept_hook
        self._warn = warn
        self._handles: list[RemovableHandle] = []
        self._step = 0
        self._epoch = 0
        self._backward_mode: bool | None = None  # of the model at the forward pass whose backward pass has begun
        self.sizes = sizes
        self.is_settled = False
        self.is_over = False

    def follow(self, model: DistributedDataParallel) -> None:
        """Watch a model's steps until tuning is over."""
        hooks = ForwardHooks(self)
        self._handles = [
            model.register_forward_pre_hook(hooks.before),
            model.register_forward_hook(hooks.after),
        ]

    def before_forward(self, model: DistributedDataParallel) -> None:
        """Notice the end of a step: a gradient pass begins, and a synchronised one has been.

        Raises:
            MismatchError: If the ranks are not where they should be; their gradients could not be averaged.
        """
        if self._control is None or not torch.is_grad_enabled():
            return
        if is_joining(model):
            self._part("inside model.join() ranks take different numbers of steps, which cannot be tuned")
            return
        if is_captured(model.device):
            self._part("the step is captured into a CUDA graph, which keeps the buckets that it was captured with")
            return
        # In another mode it is an evaluation, perhaps of one rank alone. A static graph's first backward pass with a
        # new reducer must be a synchronised one.
        is_end = self._backward_mode == model.training
        if is_end and (model.require_backward_grad_sync or not model.static_graph):
            self._backward_mode = None
            self._end_step(model, self._control)

    def after_forward(self, model: DistributedDataParallel, output: object) -> None:
        """Have the synchronised backward pass noticed that may follow."""
        if self._control is None or not torch.is_grad_enabled() or not model.require_backward_grad_sync:
            return
        mode = model.training

        def note(_: torch.Tensor) -> None:
            self._backward_mode = mode

        for tensor in output_tensors(output):
            if tensor.grad_fn is not None:
                tensor.register_hook(note)

    def _end_step(self, model: DistributedDataParallel, control: ControlGroup) -> None:
        self._step += 1
        is_resting = self.is_settled and not self.is_over
        try:
            if self._exchange is not None:
                for end in self._clock.mark(self._step, self._epoch):
                    self._exchange.put(end)
            if self._step % (RESTING_ROUND_STEPS if is_resting else ROUND_STEPS) == 0:
                self._join_round(model, control)
        except MismatchError:
            self._part(None)
            raise
        except ControlLost as error:
            self._part(f"the ranks can no longer agree ({error})")
        except Exception as error:  # noqa: BLE001  (tuning never fails training)
            self._part(f"the tuner failed: {error!r}")

    def _join_round(self, model: DistributedDataParallel, control: ControlGroup) -> None:
        if self.is_over:  # every rank knows by now, and none needs the others any more
            self._leave()
            return
        words = control.take()
        if words is None:
            objection = find_objection(model, accept_hook=self._accept_hook)  # its hooks are all there now
        else:
            objection = None
            self._follow_round(model, control, Round.from_words(words, control.size))
        if self._control is None or self.is_over:
            return
        wish = None if self._exchange is None else self._exchange.wish
        objector = None if objection is None else self._rank
        control.post(Round(self._step, wish, objector).words(control.size))

    def _follow_round(self, model: DistributedDataParallel, control: ControlGroup, agreed: Round) -> None:
        if agreed.objector is not None:
            is_mine = agreed.objector == self._rank
            objection = find_objection(model, accept_hook=self._accept_hook) if is_mine else None
            self._finish(objection)
            return
        wish = agreed.wish
        assert wish is not None  # rank 0 has one in every round
        if wish.epoch > self._epoch:
            self._switch(model, control, wish)
        self.is_settled = wish.is_decision
        if wish.is_last:
            self._finish(None)

    def _switch(self, model: DistributedDataParallel, control: ControlGroup, wish: Wish) -> None:
        """Change the buckets, on all ranks or on none."""
        rebuild, failure = _try_rebuild(model, wish.sizes)
        try:
            vote = Vote(digest_of(model, wish.epoch, wish.sizes), has_failed=rebuild is None)
            outcome = vote.check_equal(control.agree(vote.words()))
        except BaseException:
            if rebuild is not None:
                rebuild.discard()
            raise
        if rebuild is not None and not outcome.has_failed:
            rebuild.commit()
            self._epoch, self.sizes = wish.epoch, wish.sizes
            return
        if rebuild is not None:
            rebuild.discard()
        self._finish("a rank could not change its buckets" if failure is None else f"no other buckets: {failure}")

    def _finish(self, problem: str | None) -> None:
        """Keep these buckets from now on, as all ranks do at this step."""
        self.is_over = True
        self._end_tuning(problem)

    def _part(self, problem: str | None) -> None:
        """Keep these buckets from now on, whatever the others do: no change happens without this rank's vote."""
        self.is_over = True
        self._leave()
        self._end_tuning(problem)

    def _end_tuning(self, problem: str | None) -> None:
        if self._exchange is not None:
            self._exchange.closing.set()
        if problem is not None:
            self._warn(f"{problem}; tuning has ended and training goes on with the buckets that it has")

    def _leave(self) -> None:
        self._control = None
        for handle in self._handles:
            handle.remove()
        self._handles.clear()


class ForwardHooks:
    """Hooks of the model, compiled or not. In a copy of the model, which is not tuned, they do nothing."""

    def __init__(self, follower: Follower | None = None) -> None:
        """Pass on to a follower, if there is one."""
        self._follower = follower

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), ()

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def before(self, model: DistributedDataParallel, _: object) -> None:
        """Run before the forward pass."""
        if self._follower is not None:
            self._follower.before_forward(model)

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def after(self, model: DistributedDataParallel, _: object, output: object) -> None:
        """Run after the forward pass."""
        if self._follower is not None:
            self._follower.after_forward(model, output)


def _try_rebuild(model: DistributedDataParallel, sizes: BucketSizes) -> tuple[Rebuild | None, str | None]:
    """Return the new reducer beside the old one, or what was in its way."""
    try:
        return Rebuild(model, sizes), None
    except Exception as error:  # noqa: BLE001  (too little memory, for one)
        return None, str(error).splitlines()[0]
