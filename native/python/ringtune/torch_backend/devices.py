# SPDX-License-Identifier: Apache-2.0
"""Devices of a process group: where the program names another backend for one, its calls go there.

Torch takes a process group written in Python for all devices, whatever `init_process_group("cpu:ringtune,cuda:nccl")`
says. So the group itself hands calls on.
"""

from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from typing import Any, TypeVar, cast

import torch
from torch.distributed import ProcessGroup, distributed_c10d
from torch.distributed.distributed_c10d import Backend, BackendConfig, PrefixStore

from ringtune.errors import ConfigError

from .meeting import Member
from .registration import NAME

Method = TypeVar("Method", bound=Callable[..., Any])


class OtherBackends:
    """Process groups of other backends for the devices that this one does not serve, made with the first call."""

    def __init__(self, member: Member) -> None:
        """Begin with none.

        Args:
            member: This rank's part in the group.
        """
        self._member = member
        self._groups: dict[str, ProcessGroup] = {}

    def backends(self, group: ProcessGroup) -> dict[str, str]:
        """Return the backend's name for each type of device, as the program has given them."""
        given = distributed_c10d._world.pg_backend_config.get(group)  # noqa: SLF001
        return {} if given is None else dict(BackendConfig(Backend(given)).get_device_backend_map())

    def group_for(self, group: ProcessGroup, device: str) -> ProcessGroup | None:
        """Return the group that serves a type of device; None where that is this backend's."""
        found = self._groups.get(device)
        if found is None:
            name = self.backends(group).get(device, NAME)
            if name == NAME:
                return None
            found = self._groups[device] = self._made(name, device)
        return found

    def shutdown(self) -> None:
        """Leave the groups."""
        for group in self._groups.values():
            group.shutdown()

    def _made(self, name: str, device: str) -> ProcessGroup:
        member = self._member
        store = PrefixStore(f"{device}/", member.store)
        limit = timedelta(seconds=member.timeout_s)
        made: Any
        if name == Backend.GLOO:
            made = distributed_c10d.ProcessGroupGloo(store, member.rank, member.size, timeout=limit)
        elif name == Backend.NCCL:
            options = distributed_c10d.ProcessGroupNCCL.Options()
            options._timeout = limit  # noqa: SLF001
            made = distributed_c10d.ProcessGroupNCCL(store, member.rank, member.size, options)
        else:
            made = _of_plugin(name, store, member, limit)
        if isinstance(made, ProcessGroup):
            return made
        kind = Backend.backend_type_map[name]
        group = ProcessGroup(store, member.rank, member.size)
        group._set_default_backend(kind)  # noqa: SLF001
        group._register_backend(torch.device(device), kind, made)  # noqa: SLF001
        return group


def by_device(method: Method) -> Method:
    """Hand a call on whose tensors are on a device of another backend.

    Args:
        method: Method of a group that has `other_group(device)`; its first arguments are tensors, or lists of them.
    """
    name = method.__name__

    @wraps(method)
    def call(self: Any, *args: Any, **given: Any) -> Any:
        device = _device_of(args)
        if device != "cpu":
            other = self.other_group(device)
            if other is not None:
                return getattr(other, name)(*args, **given)
        return method(self, *args, **given)

    return cast("Method", call)


def _of_plugin(name: str, store: Any, member: Member, limit: timedelta) -> Any:
    plugin = Backend._plugins.get(name.upper())  # noqa: SLF001
    if plugin is None:
        raise ConfigError(f"the backend {name} cannot stand beside ringtune in one process group")
    if not plugin.extended_api:
        return plugin.creator_fn(store, member.rank, member.size, limit)
    options: Any = distributed_c10d._DistributedBackendOptions()  # type: ignore[attr-defined]  # noqa: SLF001
    options.store, options.timeout = store, limit
    options.group_rank, options.group_size = member.rank, member.size
    options.global_ranks_in_group = list(member.global_ranks)
    return plugin.creator_fn(options, None)


def _device_of(tensors: Any) -> str:
    """Return the type of the device of the first tensor in nested lists; that of the CPU where there is none."""
    for one in tensors:
        if isinstance(one, torch.Tensor):
            return one.device.type
        if isinstance(one, list | tuple) and one:
            return _device_of(one)
    return "cpu"
