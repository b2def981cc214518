# SPDX-License-Identifier: Apache-2.0
"""Modules that `fully_shard` was called on: their settings, read and set.

This module alone uses private attributes of FSDP2, those of PyTorch 2.13 (torch/distributed/fsdp/_fully_shard). There
is no public way to read a setting, or to set a number for `reshard_after_forward` again.
"""
# ruff: noqa: SLF001  (FSDP2 has no public way to its settings)

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import distributed as dist
from torch.distributed import fsdp

NEEDED_OF_STATE = (
    "_fsdp_param_groups",
    "_auto_reshard_after_forward",
    "_is_root",
    "_comm_ctx",
    "_states_to_forward_prefetch",
    "_states_to_backward_prefetch",
)
NEEDED_OF_GROUP = ("post_forward_mesh_info", "mesh_info", "mp_policy", "fsdp_params", "modules", "reduce_grads")
"""Private attributes that are used; a version of PyTorch without one of them cannot be tuned."""


@dataclass(frozen=True)
class UserSettings:
    """Settings of a unit as the user made them, once the first forward pass has completed them.

    Attributes:
        resharded_to: Mesh that holds each parameter group after the forward pass; None keeps the group whole.
        forward: States that are gathered ahead in the forward pass.
        backward: The same in the backward pass.
    """

    resharded_to: tuple[Any, ...]
    forward: tuple[Any, ...]
    backward: tuple[Any, ...]

    @property
    def is_resharded(self) -> bool:
        """True if the parameters are freed after the forward pass."""
        return any(target is not None for target in self.resharded_to)


class Unit:
    """One module that `fully_shard` was called on, or several that were given as a list, with its parameter groups.

    Attributes:
        module: The module, the first one of a list.
        state: FSDP2's state of it.
    """

    def __init__(self, module: Any) -> None:
        """Stand for a module."""
        self.module = module
        self.state: Any = module._get_fsdp_state()

    @property
    def groups(self) -> Sequence[Any]:
        """FSDP2's parameter groups: one, or none where all parameters belong to modules inside."""
        groups: Sequence[Any] = self.state._fsdp_param_groups
        return groups

    @property
    def is_resharded(self) -> bool:
        """True if the parameters are freed after the forward pass."""
        return self.user_settings().is_resharded

    @property
    def device(self) -> torch.device:
        """Device of the parameters, while they are gathered; a unit without a parameter group has none."""
        device: torch.device = self.groups[0].device
        return device

    @property
    def will_be_kept(self) -> bool:
        """True before the first forward pass, which turns `reshard_after_forward` off where this is a root."""
        return self.state._is_root is None and bool(self.state._auto_reshard_after_forward)

    @property
    def is_sharded(self) -> bool:
        """True while no full parameters are in memory."""
        return all(group.is_sharded for group in self.groups)

    @property
    def is_freed_after_backward(self) -> bool:
        """True unless the user keeps full parameters from one backward pass to the next."""
        return all(group.reshard_after_backward for group in self.groups)

    @property
    def reduces(self) -> bool:
        """True if the next backward pass reduces gradients; see `set_requires_gradient_sync`."""
        return any(group.reduce_grads for group in self.groups)

    @property
    def full_bytes(self) -> int:
        """Bytes of the full parameters, in the type in which they are gathered."""
        return sum(_full_bytes(group.mp_policy, parameter) for group in self.groups for parameter in group.fsdp_params)

    def user_settings(self) -> UserSettings:
        """Return the settings in force, to be put back later."""
        state = self.state
        return UserSettings(
            tuple(group.post_forward_mesh_info for group in self.groups),
            tuple(state._states_to_forward_prefetch),
            tuple(state._states_to_backward_prefetch),
        )

    def put_back(self, settings: UserSettings) -> None:
        """Bring settings of `user_settings` in force again."""
        for group, target in zip(self.groups, settings.resharded_to, strict=True):
            group.post_forward_mesh_info = target
        self.state._states_to_forward_prefetch = list(settings.forward)
        self.state._states_to_backward_prefetch = list(settings.backward)

    def keep_after_forward(self) -> None:
        """Turn `reshard_after_forward` off, for this unit alone."""
        self.module.set_reshard_after_forward(False, recurse=False)

    def prefetch_forward(self, units: Iterable["Unit"]) -> None:
        """Gather units ahead when this one runs forward."""
        self.module.set_modules_to_forward_prefetch([unit.module for unit in units])

    def prefetch_backward(self, units: Iterable["Unit"]) -> None:
        """Gather units ahead when this one runs backward."""
        self.module.set_modules_to_backward_prefetch([unit.module for unit in units])

    def free(self) -> None:
        """Free the full parameters, if they are there."""
        if not self.is_sharded:
            self.module.reshard()


def has_fsdp2() -> bool:
    """Return whether this PyTorch has FSDP2."""
    return hasattr(fsdp, "fully_shard") and hasattr(fsdp, "FSDPModule")


def units_of(model: torch.nn.Module) -> list[Unit]:
    """Return the units of a model, in the order of its modules; one for a list of modules."""
    found: dict[int, Unit] = {}
    for module in model.modules():
        if isinstance(module, fsdp.FSDPModule):
            unit = Unit(module)
            found.setdefault(id(unit.state), unit)
    return list(found.values())


def entries_of(model: torch.nn.Module) -> list[torch.nn.Module]:
    """Return the modules whose calls begin a forward pass: the model, and every outermost module under FSDP2 in it."""
    found, inner = [model], set[int]()
    for module in model.modules():
        if isinstance(module, fsdp.FSDPModule) and id(module) not in inner:
            inner.update(id(child) for child in module.modules())
            if module is not model:
                found.append(module)
    return found


def missing_attributes(units: Sequence[Unit]) -> list[str]:
    """Return the private attributes that this version of FSDP2 lacks."""
    missing = [name for name in NEEDED_OF_STATE if not all(hasattr(unit.state, name) for unit in units)]
    if missing:
        return missing
    groups = [group for unit in units for group in unit.groups]
    return [name for name in NEEDED_OF_GROUP if not all(hasattr(group, name) for group in groups)]


def forward_orders(units: Sequence[Unit]) -> dict[int, list[Any]]:
    """Return the parameter groups that have run forward since the last backward pass, by communication context.

    Before the first forward pass there is none.
    """
    contexts = {id(unit.state._comm_ctx): unit.state._comm_ctx for unit in units}
    return {number: getattr(context, "post_forward_order", []) for number, context in contexts.items()}


def units_passed(units: Sequence[Unit], groups: Sequence[Any]) -> list[Unit]:
    """Return the units of parameter groups, in the order of these, each once."""
    of_group = {id(group): unit for unit in units for group in unit.groups}
    found = [of_group[id(group)] for group in groups if id(group) in of_group]
    return list({id(unit): unit for unit in found}.values())


def beginning_order(ended: Sequence[Unit]) -> list[Unit]:
    """Return units in the order in which their forward passes begin, given the order in which they end."""
    order: list[Unit] = []
    for unit in ended:
        inside = {id(module) for group in unit.groups for module in group.modules for module in module.modules()}
        place = len(order)
        while place and id(order[place - 1].module) in inside:
            place -= 1
        order.insert(place, unit)
    return order


def mesh_of(units: Sequence[Unit]) -> Any:
    """Return the mesh of the first parameter group."""
    return next(group.mesh_info.mesh for unit in units for group in unit.groups)


def whole_mesh(mesh: Any) -> Any:
    """Return the mesh that a mesh is a part of, such as one with tensor parallelism."""
    return mesh._get_root_mesh() if hasattr(mesh, "_get_root_mesh") else mesh


def default_group() -> dist.ProcessGroup:
    """Return the process group of all ranks."""
    return dist.distributed_c10d._get_default_group()


def _full_bytes(policy: Any, parameter: Any) -> int:
    dtype: torch.dtype = policy.param_dtype or parameter.sharded_param.dtype
    return int(parameter._orig_size.numel()) * dtype.itemsize
