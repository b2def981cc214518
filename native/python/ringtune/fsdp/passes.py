# SPDX-License-Identifier: Apache-2.0
"""Forward passes of a model under FSDP2: they show its steps, and each runs under the settings that are due to it.

A pass with gradients runs under the settings of the tuner. One without, such as an evaluation, runs under the user's
own: its batch may be larger, and no backward pass would free the parameters that the tuner keeps. Before a pass with
gradients, parameters that the tuner keeps are freed, as they would be without it: none is older than the optimizer's.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils.hooks import RemovableHandle

from ringtune.tuning.model.forward_pass import is_captured, output_tensors
from ringtune.tuning.model.live_model import Steps

from .settings import FsdpSettings
from .units import Unit, UserSettings, beginning_order, entries_of, forward_orders, units_of, units_passed


class Passes:
    """The forward passes of one model on one rank. Used from the thread that trains.

    Attributes:
        units: The modules that `fully_shard` was called on.
        settings: Settings of passes with gradients.
        steps: Receiver of the steps; None while no tuner runs.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        """Take the model's hooks; the model runs as before until `change`."""
        self.units: Sequence[Unit] = units_of(model)
        self.settings = FsdpSettings()
        self.steps: Steps | None = None
        self._in_force = FsdpSettings()
        self._users: list[UserSettings] = []
        self._kept: list[Unit] = []
        self._ended: dict[int, list[Unit]] = {}  # units by the ends of their forward passes, by context
        self._begun: dict[int, dict[int, int]] = {}  # groups that had passed before, by entry and context
        self._has_reduced = False
        entries = entries_of(model)
        self._inside = {id(entry): _inside(entry, self.units) for entry in entries}
        self._handles: list[RemovableHandle] = []
        for entry in entries:
            self._handles += [
                entry.register_forward_pre_hook(self.before, prepend=True),
                entry.register_forward_hook(self.after),
            ]

    @property
    def reshardable(self) -> list[Unit]:
        """The units whose parameters are freed after the forward pass, as the user set them, in their order."""
        if not self._users:
            return [unit for unit in self.units if unit.is_resharded and not self._is_new_root(unit)]
        pairs = zip(self.units, self._users, strict=True)
        freed = {id(unit) for unit, user in pairs if user.is_resharded}
        return [unit for order in self._ended.values() for unit in beginning_order(order) if id(unit) in freed]

    @property
    def device(self) -> torch.device:
        """Device of the parameters, while they are gathered."""
        return next(unit.device for unit in self.units if unit.groups)

    @property
    def is_ready(self) -> bool:
        """True once a whole forward pass has shown the units' order: then settings can be changed."""
        return bool(self._users and self._ended)

    @property
    def order(self) -> list[list[int]]:
        """The numbers of the units by the ends of their forward passes, one list for each root."""
        number = {id(unit): index for index, unit in enumerate(self.units)}
        return [[number[id(unit)] for unit in order] for order in self._ended.values()]

    def change(self, settings: FsdpSettings) -> None:
        """Take other settings, in force from the next pass with gradients on; at the earliest after a whole pass."""
        self.settings = settings
        self._bring(settings)

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def before(self, entry: torch.nn.Module, _: object) -> None:
        """Run before a forward pass."""
        if not torch.is_grad_enabled():
            self._bring(FsdpSettings())
            return
        self._note_step()
        self._bring(self.settings)
        inside = self._inside[id(entry)]
        for unit in self._kept:  # by a pass that no backward pass has followed
            if id(unit) in inside and not unit.is_sharded and unit.is_freed_after_backward:
                unit.free()
        orders = forward_orders(list(inside.values()))
        self._begun[id(entry)] = {context: len(groups) for context, groups in orders.items()}

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def after(self, entry: torch.nn.Module, _: object, output: object) -> None:
        """Run after a forward pass: note the order of the units, and have the backward pass noticed."""
        if not torch.is_grad_enabled():
            return
        inside = list(self._inside[id(entry)].values())
        begun = self._begun.get(id(entry), {})
        for context, groups in forward_orders(inside).items():
            passed = units_passed(inside, groups[begun.get(context, 0) :])
            if passed:
                self._ended[context] = passed
        if self._in_force == FsdpSettings():
            self._users = [unit.user_settings() for unit in self.units]
        if self.steps is not None and self.steps.is_following:
            self._note_backward(output)

    def _note_step(self) -> None:
        """Note the end of a step: a pass with gradients begins, and gradients have been reduced."""
        if self.steps is None or not self.steps.is_following:
            return
        if is_captured(self.device):
            self.steps.part("the step is captured into a CUDA graph, which keeps the settings of its capture")
        elif self._has_reduced:
            self._has_reduced = False
            self.steps.end_step()

    def _is_new_root(self, unit: Unit) -> bool:
        """Return whether a unit is a root whose first forward pass will turn `reshard_after_forward` off by itself."""
        return id(unit.module) in self._inside and unit.will_be_kept

    def _note_backward(self, output: object) -> None:
        def note(_: torch.Tensor) -> None:
            self._has_reduced |= any(unit.reduces for unit in self.units)

        for tensor in output_tensors(output):
            if tensor.grad_fn is not None:
                tensor.register_hook(note)

    def _bring(self, settings: FsdpSettings) -> None:
        """Bring settings in force, between two passes."""
        if settings == self._in_force or not self.is_ready:
            return
        for unit in self._kept:
            unit.free()
        for unit, user in zip(self.units, self._users, strict=True):
            unit.put_back(user)
        self._in_force = settings
        freed = self.reshardable
        self._kept = freed[len(freed) - settings.kept_modules :] if settings.kept_modules else []
        for unit in self._kept:
            unit.free()
            unit.keep_after_forward()
        for order in self._ended.values():
            self._prefetch(order, settings)

    def _prefetch(self, ended: Sequence[Unit], settings: FsdpSettings) -> None:
        if settings.forward_prefetch:
            begun = beginning_order(ended)
            for index, unit in enumerate(begun):
                unit.prefetch_forward(begun[index + 1 : index + 1 + settings.forward_prefetch])
        if settings.backward_prefetch:
            later = list(reversed(ended))
            for index, unit in enumerate(later):
                gathered = [other for other in later[index + 1 :] if other.is_resharded]
                unit.prefetch_backward(gathered[: settings.backward_prefetch])


def passes_of(model: torch.nn.Module) -> Passes:
    """Return the passes of a model: those that an earlier call has made, or new ones."""
    owners = (getattr(hook, "__self__", None) for hook in model._forward_pre_hooks.values())  # noqa: SLF001  (no public list of hooks)
    return next((owner for owner in owners if isinstance(owner, Passes)), None) or Passes(model)


def _inside(entry: torch.nn.Module, units: Sequence[Unit]) -> dict[int, Any]:
    modules = {id(module) for module in entry.modules()}
    return {id(unit): unit for unit in units if id(unit.module) in modules}
