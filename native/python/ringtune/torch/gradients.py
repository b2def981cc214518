# SPDX-License-Identifier: Apache-2.0
"""Combines gradients over the ranks while backward still runs.

A hook on every trained parameter submits its gradient as soon as autograd has accumulated it. `synchronize` takes stock
of the optimizer's parameters, notes for the other ranks which of them have gradients, submits zeros for those
that only other ranks have, and waits for all. The hook runs in autograd's threads, everything else in the main thread;
backward has returned before `synchronize` is called, and each parameter has one thread, so that the entry into a world
alone needs a lock. A submission acts on the stream that is current where the hook runs.
"""

import threading
import weakref
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch

from ringtune.errors import ConfigError, RingtuneError
from ringtune.identity.gradient_set import GradientSet
from ringtune.session.process_sets import global_process_set
from ringtune.session.submissions import NO_GROUP, world_of
from ringtune.world.world import World

from .gradient_entries import GradientEntry, computed_again
from .gradient_hooks import GradientHooks, other_reducers
from .gradient_transport import GradientPlan, GradientTransport
from .parameter_names import NamedParameter, positional_names
from .registered_gradients import GradientHome, has_use, lay_out
from .same_parameters import OPTIMIZER
from .step_agreement import StepAgreement, moved_outside_of_steps
from .step_ends import note_gradient
from .step_notes import StepNote
from .weight_watch import WeightWatch

ParameterGroups = Sequence[dict[str, Any]]


class GradientReducer:
    """Owns the hooks of one optimizer's parameters and the operations in flight."""

    def __init__(self, named_parameters: Sequence[NamedParameter], plan: GradientPlan) -> None:
        """Register a hook per parameter that needs a gradient.

        Args:
            named_parameters: Those of the optimizer, in its order; the names are distinct and the same on all ranks.
            plan: Reduction, compression and groups of the gradients.
        """
        self._plan = plan
        self._transport = GradientTransport(plan)
        self._hooks = GradientHooks(self, plan.reduction, is_plain=self._transport.is_plain)
        self._process_set = plan.process_set
        self._passes_per_step = plan.passes_per_step
        self._entries: dict[int, GradientEntry] = {}  # by the parameter's id, in the optimizer's order
        self._unhooked: list[GradientEntry] = []  # of parameters that were frozen so far
        self._in_flight: list[GradientEntry] = []
        self._world: World | None = None
        self._lock = threading.Lock()  # guards the entry into a world
        self._agreement = StepAgreement(plan.process_set, plan.reduction)
        self._watch = WeightWatch()
        self._watched: list[torch.nn.Parameter] | None = None  # the parameters of the watch, if they were found
        self._told_names: list[str] = []  # what the world's gradient set has of this optimizer
        self.is_combined = False
        """Whether the gradients that there are were combined; until the next backward pass."""
        for name, parameter in named_parameters:
            if id(parameter) not in self._entries:  # torch allows a parameter twice in a group
                self._add(name, parameter)

    @property
    def entries(self) -> Collection[GradientEntry]:
        """The parameters, in the optimizer's order."""
        return self._entries.values()

    @property
    def is_in_flight(self) -> bool:
        """True if gradients were submitted, in the world that there is, and not yet waited for."""
        return bool(self._in_flight) and self._process_set.included() is True and self._process_set.world is self._world

    @property
    def is_pending(self) -> bool:
        """True if backward passes have left gradients that are not combined."""
        return self._watch.is_on

    @property
    def passes_per_step(self) -> int:
        """Backward passes whose gradients are accumulated before they are submitted; may be changed between steps."""
        return self._passes_per_step

    @passes_per_step.setter
    def passes_per_step(self, passes: int) -> None:
        self._passes_per_step = passes
        self.restart()

    def restart(self) -> None:
        """Forget the backward passes that were accumulated; no gradient may be in flight."""
        self.is_combined = False
        self._hooks.close()
        self._watch.end()
        for entry in self._entries.values():
            entry.handle = entry.gradient = None
            entry.passes = 0

    def throw_away(self, param_groups: ParameterGroups) -> None:
        """Throw gradients away: those in flight on all ranks alike, those that are accumulated on this rank alone.

        Raises:
            ConfigError: If weights were changed by these gradients before they were combined, or other ranks step with
                them. With no gradient in flight the ranks exchange no notes, and a change of weights is reported later.
            EngineError: If the world is lost.
        """
        moved = self._watch.has_moved()
        if self.is_in_flight:
            self._agreement.has_moved |= moved
            self.synchronize(param_groups, is_discarding=True)
        elif moved:
            if self._agreement.has_moved:
                raise moved_outside_of_steps("this again and again, without a step")
            self._agreement.has_moved = True
        self.restart()

    def adopt(self, param_groups: ParameterGroups) -> None:
        """Follow the optimizer's parameters: take in new ones, let go of old ones, hook those that are trained by now.

        Args:
            param_groups: The optimizer's; changed alike on all ranks.
        """
        ids = [id(parameter) for group in param_groups for parameter in group["params"]]
        if ids != list(self._entries) and list(dict.fromkeys(ids)) != list(self._entries):
            self._follow(param_groups)
        self._hook_trained()

    def lacks(self, param_groups: ParameterGroups) -> str | None:
        """Return the name of a parameter that has a gradient and was not there when gradients were combined."""
        for name, parameter in positional_names(param_groups, 0):
            if parameter.grad is not None and id(parameter) not in self._entries:
                return name
        return None

    def gradient_ready(self, parameter: torch.Tensor) -> None:
        """Take note that autograd has accumulated a gradient; submit it if this was its last pass.

        Raises:
            ConfigError: If the gradient was submitted before and not yet waited for, or cannot be taken.
            EngineError: If the world is lost.
        """
        entry = self._entries.get(id(parameter))
        if entry is None:  # a copy of the parameter, made with its hooks
            return
        world = self._world
        if world is None or self._process_set.world is not world:
            world = self._joined_world()
            if world is None:  # this rank is not in the set
                return
        self.is_combined = False
        gradient = parameter.grad
        if entry.handle is not None:
            raise computed_again(entry, self._passes_per_step)
        self._watch_weights(world, entry)
        if gradient is not entry.gradient:  # the first pass, or what there was was thrown away
            entry.gradient, entry.passes = gradient, 0
        entry.passes += 1
        if entry.passes >= self._passes_per_step and not (entry.others and _is_shared(entry)):
            self._submit(world, entry)

    def _watch_weights(self, world: World, ready: GradientEntry) -> None:
        """Watch the weights from the first gradient of a step on, but those that another optimizer steps with, too.

        Hooks may do without Python from then on, unless gradients are accumulated.
        """
        if not self._watch.is_on:
            self._watch.begin(self._own_parameters())
        if self._watch.is_full or ready.others:
            return
        if self._watch.sample(ready.parameter) and self._passes_per_step == 1:
            self._hooks.open(world)

    def _own_parameters(self) -> list[torch.nn.Parameter]:
        """Return the trained parameters of this optimizer alone."""
        if self._watched is None:
            hooked = [entry for entry in self._entries.values() if entry.hook is not None and not entry.others]
            self._watched = [entry.parameter for entry in hooked]
        return self._watched

    def synchronize(
        self, param_groups: ParameterGroups, *, is_discarding: bool = False, is_early: bool = False
    ) -> None:
        """Submit gradients that the backward pass did not reach, and wait until all are combined.

        A parameter without a gradient counts as zeros where other ranks have one; one that no rank has a gradient for
        keeps none.

        Args:
            param_groups: The optimizer's.
            is_discarding: Whether the gradients are to be thrown away, on all ranks.
            is_early: Whether a closure is called next, on all ranks.

        Raises:
            ConfigError: If a rank changed gradients in flight, or weights so that the ranks' differ; if ranks have
                different parameters, or some throw gradients away that others step with; raised on every rank.
            EngineError: If a gradient differs between ranks or the world is lost; the first error, after all other
                gradients were waited for.
        """
        world = self._joined_world()
        if world is None:
            return
        self.adopt(param_groups)
        entries = list(self._entries.values())
        self._agreement.heed(self._watch)
        try:
            agreed = self._agreement.reach(world, entries, is_discarding=is_discarding, is_early=is_early)
        except ConfigError:
            self._abandon()
            raise
        except RingtuneError:
            self._wait()
            raise
        submitted = self._finish(world, entries, agreed)
        self._agreement.check(world, entries, agreed)
        if agreed.has_news:
            self._lay_out(world, entries, submitted)
        self.is_combined = not is_discarding

    def _finish(self, world: World, entries: Sequence[GradientEntry], agreed: StepNote) -> Sequence[GradientEntry]:
        """Submit the gradients that only other ranks have, and wait for all; return all submitted ones in order."""
        nobodys = [entries[index] for index in agreed.absent]
        try:
            self._submit_missing(world, entries, nobodys)
        finally:
            submitted = list(self._in_flight)
            error = self._wait()
        if error is not None:
            raise error
        for entry in nobodys:
            entry.parameter.grad = None
        return submitted

    def _submit_missing(self, world: World, entries: Sequence[GradientEntry], nobodys: Sequence[GradientEntry]) -> None:
        """Submit gradients not in flight, except those that no rank has, unless their group waits for them."""
        skipped = set(map(id, nobodys))
        groups = {entry.group for entry in entries if id(entry) not in skipped} - {NO_GROUP}
        for entry in entries:
            if entry.handle is None and (id(entry) not in skipped or entry.group in groups):
                self._submit(world, entry)

    def _wait(self) -> RingtuneError | None:
        """Wait for all gradients in flight, and end the step; return the first error."""
        entries, self._in_flight = self._in_flight, []
        first: RingtuneError | None = None
        for entry in entries:
            handle, entry.handle = entry.handle, None
            try:
                if handle is not None:
                    handle.wait()
            except RingtuneError as error:
                first = first or error
        self.restart()
        return first

    def _abandon(self) -> None:
        """Forget the gradients in flight: other ranks will not submit theirs."""
        self._in_flight = []
        self.restart()

    def _add(self, name: str, parameter: torch.nn.Parameter) -> None:
        unique = self._process_set.claim_name(f"gradient.{name}")
        entry = GradientEntry(unique, name, parameter, self._plan.groups.get(id(parameter), NO_GROUP))
        self._entries[id(parameter)] = entry
        self._unhooked.append(entry)
        self._hook_trained()

    def _follow(self, param_groups: ParameterGroups) -> None:
        """Bring the entries to the optimizer's parameters and their order."""
        old, self._entries, self._watched = self._entries, {}, None
        for name, parameter in positional_names(param_groups, 0):
            entry = old.pop(id(parameter), None)
            if entry is not None:
                self._entries[id(parameter)] = entry
            elif id(parameter) not in self._entries:
                self._add(name, parameter)
        self._let_go(list(old.values()))
        self._agreement.has_news = True

    def _let_go(self, entries: Sequence[GradientEntry]) -> None:
        """Forget parameters that the optimizer has no more."""
        for entry in entries:
            if entry.hook is not None:
                entry.hook.remove()
        broken = {entry.group for entry in entries}
        for entry in self._entries.values():
            if entry.group in broken:  # it would wait for its lost member for ever
                entry.group = NO_GROUP
        lost = set(map(id, entries))
        self._unhooked = [entry for entry in self._unhooked if id(entry) not in lost]

    def _hook_trained(self) -> None:
        """Register the hooks of parameters that are trained and have none; torch refuses those of frozen ones."""
        trained = [entry for entry in self._unhooked if entry.parameter.requires_grad]
        for entry in trained:
            for other in other_reducers(entry.parameter):
                if other.holds(entry.parameter):
                    entry.others.append(weakref.ref(other))
                    other.share(entry.parameter, self)
            untyped: Any = entry.parameter  # torch leaves the method without annotations
            entry.hook = untyped.register_post_accumulate_grad_hook(self._hooks.make(entry))
            self._agreement.has_news = True
        if trained:
            self._unhooked = [entry for entry in self._unhooked if entry.hook is None]
            self._watched = None
            if self._world is not None:
                self._tell(self._world, trained)

    def share(self, parameter: torch.nn.Parameter, other: "GradientReducer") -> None:
        """Take note that another optimizer trains the parameter too: its gradients belong to the one that steps."""
        self._entries[id(parameter)].others.append(weakref.ref(other))
        self._watched = None

    def holds(self, parameter: torch.nn.Parameter) -> bool:
        """Return whether this optimizer trains the parameter."""
        return id(parameter) in self._entries

    def _joined_world(self) -> World | None:
        """Return the world of now, telling it once which gradients a step submits; None if this rank is not in it."""
        if self._process_set.included() is False:
            return None
        world = world_of(self._process_set)
        with self._lock:
            if world is not self._world:
                self._abandon()  # what is of a world that is no more
                self._agreement.has_news = True
                for entry in self._entries.values():
                    entry.home = None
                self._told_names = []
                weakref.finalize(self, GradientSet.discard, world.gradient_set, self._told_names).atexit = False
                self._tell(world, [entry for entry in self._entries.values() if entry.hook is not None])
                self._world = world  # last: hooks of other devices' threads go on from here without the lock
        return world

    def _tell(self, world: World, entries: Sequence[GradientEntry]) -> None:
        """Register the gradients that a step submits with a world."""
        for entry in entries:
            note_gradient(world, entry.name, entry.parameter)
            self._told_names.append(entry.name)

    def _lay_out(self, world: World, entries: Sequence[GradientEntry], submitted: Sequence[GradientEntry]) -> None:
        """Find homes for gradients that have none, after the first step of a world and where parameters changed.

        Args:
            world: The world of now.
            entries: All, in the optimizer's order.
            submitted: Those with a gradient, in the order in which they were submitted.
        """
        homes: Mapping[int, GradientHome] | None = {}
        if self._transport.is_plain and self._process_set is global_process_set and has_use(world):
            homeless = _places([entry for entry in submitted if entry.needs_home], entries)
            homes = lay_out(world, OPTIMIZER, [entry.parameter for entry in entries], homeless)
        if homes is not None:
            self._agreement.has_news = False
            for index, home in homes.items():
                entries[index].home = home

    def _submit(self, world: World, entry: GradientEntry) -> None:
        parameter, gradient = entry.parameter, None
        entry.gradient = None  # a home must have no other owner
        if entry.home is not None and not entry.home.fits(parameter):
            entry.home, self._agreement.has_news = None, True
            self._tell(world, [entry])
        if entry.home is not None and not entry.is_sparse:
            gradient = entry.home.take_in(parameter)
        if gradient is None:
            gradient = parameter.grad
        if gradient is None:
            gradient = parameter.grad = entry.zeros()
        entry.track(gradient, self._transport.start(world, entry, gradient))
        self._in_flight.append(entry)


def _places(chosen: Sequence[GradientEntry], entries: Sequence[GradientEntry]) -> list[int]:
    """Return the indices of those that are among the entries, in their own order."""
    places = {id(entry): place for place, entry in enumerate(entries)}
    return [places[id(entry)] for entry in chosen if id(entry) in places]


def _is_shared(entry: GradientEntry) -> bool:
    """Return whether another optimizer still trains the parameter."""
    living = [(other, other()) for other in entry.others]
    entry.others = [other for other, reducer in living if reducer is not None and reducer.holds(entry.parameter)]
    return bool(entry.others)
